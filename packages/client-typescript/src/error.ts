import { TRPCClientError } from '@trpc/client'
import type { AppRouter } from '../../../server/api/root.ts'
import type { ErrorReason } from '../../../server/contract/error-reasons.ts'

/**
 * The reason of a failed call, from the service (docs/api.md) or from the client. `version_mismatch`: the service's
 * version is not compatible with the client's.
 */
export type RewardOpsReason =
  | ErrorReason
  | 'unreachable'
  | 'invalid_url'
  | 'not_rewardops'
  | 'version_mismatch'

/** A failed call. `reason` is a stable code, `hint` the remedy. */
export class RewardOpsClientError extends TRPCClientError<AppRouter> {
  readonly reason: RewardOpsReason
  readonly hint: string
  /** Identifies the request in the service's log; null if no answer arrived. */
  readonly requestId: string | null
  /** Delay before the call may be repeated, in ms; null if the service gave none. */
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
    // The constructor of TRPCClientError sets the prototype to its own, so this constructor sets the prototype again.
    Object.setPrototypeOf(this, RewardOpsClientError.prototype)
    this.name = 'RewardOpsClientError'
    this.reason = reason
    this.hint = details.hint ?? ''
    this.requestId = details.requestId ?? null
    this.retryAfterMs = details.retryAfterMs ?? null
  }
}
