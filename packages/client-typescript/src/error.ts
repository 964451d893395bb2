import { TRPCClientError } from '@trpc/client'
import type { AppRouter } from '../../../server/api/root.ts'
import type { ErrorReason } from '../../../server/contract/error-reasons.ts'

/**
 * What happened to a call: a word of the service's table of refusals (docs/api.md), or of what no service said itself:
 * nobody answers, the address is not one, what answers is no rewardops service, or one of another version.
 */
export type RewardOpsReason =
  | ErrorReason
  | 'unreachable'
  | 'invalid_url'
  | 'not_rewardops'
  | 'version_mismatch'

/** Every failure of a call: one sentence as `message`, a stable word as `reason`, what to do about it as `hint`. */
export class RewardOpsClientError extends TRPCClientError<AppRouter> {
  readonly reason: RewardOpsReason
  readonly hint: string
  /** Names the request in the service's log; null where it was never answered. */
  readonly requestId: string | null
  /** When the same call may be made again, in ms, where the service said so. */
  readonly retryAfterMs: number | null

  constructor(
    reason: RewardOpsReason,
    message: string,
    details: {
      hint?: string
      requestId?: string | null
      retryAfterMs?: number | null
      cause?: unknown
    } = {},
  ) {
    super(message, details.cause instanceof Error ? { cause: details.cause } : {})
    // tRPC's constructor makes it one of its own.
    Object.setPrototypeOf(this, RewardOpsClientError.prototype)
    this.name = 'RewardOpsClientError'
    this.reason = reason
    this.hint = details.hint ?? ''
    this.requestId = details.requestId ?? null
    this.retryAfterMs = details.retryAfterMs ?? null
  }
}
