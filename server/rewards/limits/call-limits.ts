import type { RequestLimits } from '../../contract/resolved-reward.ts'
import { type LimitClock, systemClock } from './clock.ts'
import { GateRegistry } from './gate-registry.ts'
import type { RequestGate } from './request-gate.ts'

/** A limiter as a reward names it. */
export interface LimiterRef {
  name: string
  limits: RequestLimits
}

/** The gates that calls to somebody else's service go through, one for each name. */
export interface CallLimits {
  /** The clock its gates go by. */
  readonly clock: LimitClock
  /** The limiter's gate; it may have other limits than asked for, which came first. Rejects when it cannot be found out. */
  gate(limiter: LimiterRef): Promise<RequestGate>
}

/** Limits of this process alone: where nobody else scores. */
export function localCallLimits(clock: LimitClock = systemClock): CallLimits {
  const gates = new GateRegistry(clock)
  return { clock, gate: async ({ name, limits }) => gates.gate(name, limits).gate }
}
