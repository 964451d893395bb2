import { ERROR_REASONS, type ErrorReason } from './contract/error-reasons.ts'

const brand = Symbol.for('rewardops.error')

/**
 * A refusal the caller is told about: a reason of the one table, a message that names what is wrong,
 * a hint that says what to do. Everything else thrown is "internal" and stays in the log.
 */
export class RewardOpsError extends Error {
  readonly [brand] = true
  readonly reason: ErrorReason
  readonly hint: string
  /** For 429 and 503: when to come back. */
  readonly retryAfterMs: number | undefined

  constructor(
    reason: ErrorReason,
    message: string,
    options: { hint?: string; retryAfterMs?: number; cause?: unknown } = {},
  ) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause })
    this.name = 'RewardOpsError'
    this.reason = reason
    this.hint = options.hint ?? ERROR_REASONS[reason].hint
    this.retryAfterMs = options.retryAfterMs
  }
}

/** By brand, not `instanceof`: Next's bundle holds a second copy of this class. */
export function isRewardOpsError(error: unknown): error is RewardOpsError {
  return (
    typeof error === 'object' &&
    error !== null &&
    (error as Record<symbol, unknown>)[brand] === true
  )
}
