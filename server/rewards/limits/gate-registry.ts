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
    const ignored: string[] = []
    for (const key of Object.keys(limits) as (keyof RequestLimits)[]) {
      // The time-out is each call's own.
      if (key === 'timeoutMs' || limits[key] === known.limits[key]) continue
      ignored.push(`${key} stays ${known.limits[key]}, ${limits[key]} is ignored`)
    }
    return { gate: known, ignored }
  }
}
