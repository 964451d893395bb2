import type { LimitClock } from './clock.ts'
import type { RequestLimits } from './limit-settings.ts'
import { RequestGate } from './request-gate.ts'
import type { Rate } from './token-bucket.ts'

/** Where the limits a minute of a name are kept; what is left out, in this process alone. */
export type RatesFor = (name: string, limits: RequestLimits) => { requests?: Rate; tokens?: Rate }

/** A gate, and which of the limits asked for it does not have. */
export interface GateFound {
  gate: RequestGate
  /** In words, each as `maxRpm stays 60, 120 is ignored`; empty: it is as asked for. */
  ignored: string[]
}

/**
 * One gate for each name, e.g. a provider within a run. The first limits given for a name are its limits: whoever comes
 * later shares them, and is told what of its own does not count (upstream says nothing of `max_concurrent`).
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

/** What of the limits asked for does not count beside those in force, in words. The time-out is each call's own. */
export function ignoredLimits(inForce: RequestLimits, asked: RequestLimits): string[] {
  const shared = ['maxConcurrent', 'maxRpm', 'maxTpm', 'burstSeconds', 'compat'] as const
  return shared
    .filter((key) => inForce[key] !== asked[key])
    .map((key) => `${key} stays ${inForce[key]}, ${asked[key]} is ignored`)
}
