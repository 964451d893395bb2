import { ERROR_REASONS, type ErrorReason } from './contract/error-reasons.ts'

const brand = Symbol.for('rewardops.error')

/**
 * A refusal that is reported to the caller: a reason from ERROR_REASONS, a message that names the problem,
 * and a hint. All other errors are reported as "internal" and logged.
 */
export class RewardOpsError extends Error {
  readonly [brand] = true
  readonly reason: ErrorReason
  readonly hint: string
  /** For 429 and 503: the time to wait before a retry. */
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

export function runNotFound(name: string): RewardOpsError {
  return new RewardOpsError('run_not_found', `There is no run "${name.slice(0, 80)}".`)
}

export function shuttingDown(cause?: unknown): RewardOpsError {
  return new RewardOpsError('shutting_down', 'The service is stopping.', {
    retryAfterMs: 2_000,
    cause,
  })
}

/** Checks a brand property instead of `instanceof`, because Next's bundle contains a second copy of this class. */
export function isRewardOpsError(error: unknown): error is RewardOpsError {
  return (
    typeof error === 'object' &&
    error !== null &&
    (error as Record<symbol, unknown>)[brand] === true
  )
}
