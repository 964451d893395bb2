import type { LimitClock } from './clock.ts'
import type { RequestLimits } from './limit-settings.ts'
import { RequestGate } from './request-gate.ts'
import type { Rate } from './token-bucket.ts'

/**
 * Returns the rates per minute that processes share under a limiter name. A rate that is not returned is counted in
 * this process alone.
 */
export type RatesFor = (name: string, limits: RequestLimits) => { requests?: Rate; tokens?: Rate }

export interface GateFound {
  gate: RequestGate
  /** One text per ignored limit, such as `maxRpm stays 60, 120 is ignored`. */
  ignored: string[]
}

/**
 * One gate per name. The first limits given for a name apply. Later callers share them, and learn which of their
 * requested limits are ignored (verl ignores a later `max_concurrent` silently).
 */
export class GateRegistry {
  readonly #clock: LimitClock
  readonly #ratesFor: RatesFor
  readonly #gates = new Map<string, RequestGate>()

  constructor(clock: LimitClock, ratesFor: RatesFor = () => ({})) {
    this.#clock = clock
    this.#ratesFor = ratesFor
  }

  gate(name: string, limits: RequestLimits): GateFound {
    const known = this.#gates.get(name)
    if (known === undefined) {
      const gate = new RequestGate(limits, this.#clock, this.#ratesFor(name, limits))
      this.#gates.set(name, gate)
      return { gate, ignored: [] }
    }
    return { gate: known, ignored: ignoredLimits(known.limits, limits) }
  }
}

/**
 * Describes the requested limits that differ from those in force. The timeout is excluded, because each call has its
 * own.
 */
export function ignoredLimits(inForce: RequestLimits, wanted: RequestLimits): string[] {
  const shared = ['maxConcurrent', 'maxRpm', 'maxTpm', 'burstSeconds', 'compat'] as const
  return shared
    .filter((key) => inForce[key] !== wanted[key])
    .map((key) => `${key} stays ${inForce[key]}, ${wanted[key]} is ignored`)
}
