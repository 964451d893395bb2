import type { RequestLimits } from '../../contract/resolved-reward.ts'
import { type LimitClock, systemClock } from './clock.ts'
import { GateRegistry } from './gate-registry.ts'
import type { RequestGate } from './request-gate.ts'

export interface LimiterRef {
  name: string
  limits: RequestLimits
}

export interface CallLimits {
  readonly clock: LimitClock
  /**
   * The limiter's gate. If an earlier call named the limiter with other limits, those limits apply. Rejects if the gate
   * cannot be determined.
   */
  gate(limiter: LimiterRef): Promise<RequestGate>
}

/** Limits within this process, for use where no other process scores. */
export function localCallLimits(clock: LimitClock = systemClock): CallLimits {
  const gates = new GateRegistry(clock)
  return { clock, gate: async ({ name, limits }) => gates.gate(name, limits).gate }
}
