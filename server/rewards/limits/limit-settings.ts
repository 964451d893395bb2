import { z } from 'zod'

/** The manager's name upstream, and the two others that its documentation and its discussions use. */
export const RATE_LIMITED = 'rate_limited'
export const RATE_LIMITED_ALIASES: Readonly<Record<string, string>> = {
  limited: RATE_LIMITED,
  limit: RATE_LIMITED,
}

/** Upstream's keys of the `rate_limited` manager with its defaults, and `burst_seconds`, which is ours. */
export const limitKwargs = z.strictObject({
  max_concurrent: z.int().min(1).default(1).describe('Calls at once'),
  max_rpm: z.number().positive().nullable().default(null).describe('Calls a minute; null: any'),
  max_tpm: z.number().positive().nullable().default(null).describe('Tokens a minute; null: any'),
  estimated_tokens_per_request: z
    .number()
    .min(0)
    .default(2_000)
    .describe('Tokens of a call until its answer tells how many they were'),
  timeout: z.number().positive().max(86_400).default(300).describe('Seconds a call may take'),
  burst_seconds: z
    .number()
    .positive()
    .max(60)
    .default(1)
    .describe('What may go at once after a pause, in seconds of the limit; one call at least'),
})

/** Limits of calls to somebody else's service. */
export interface RequestLimits {
  maxConcurrent: number
  /** null: not limited. */
  maxRpm: number | null
  maxTpm: number | null
  estimatedTokens: number
  /** Of a call itself; waiting for its turn does not count. */
  timeoutMs: number
  burstSeconds: number
  /**
   * `verl`: a bucket holds one second's worth and no more, so that below 60 requests a minute, or with calls of more
   * than a second's tokens, the first one waits although nothing was sent yet. Default: at least one call goes at once.
   */
  compat?: 'verl'
}

/** Reads upstream's keys; throws a ZodError naming the one that is wrong. */
export function readLimits(kwargs: Record<string, unknown>): RequestLimits {
  const read = limitKwargs.parse(kwargs)
  return {
    maxConcurrent: read.max_concurrent,
    maxRpm: read.max_rpm,
    maxTpm: read.max_tpm,
    estimatedTokens: read.estimated_tokens_per_request,
    timeoutMs: read.timeout * 1_000,
    burstSeconds: read.burst_seconds,
  }
}

/** Refill a second and capacity of a bucket for a limit a minute; `ofOne` is what a single call takes of it. */
export function bucketOf(
  perMinute: number,
  ofOne: number,
  { burstSeconds, compat }: Pick<RequestLimits, 'burstSeconds' | 'compat'>,
): { ratePerSecond: number; capacity: number } {
  const ratePerSecond = perMinute / 60
  return compat === 'verl'
    ? { ratePerSecond, capacity: ratePerSecond }
    : { ratePerSecond, capacity: Math.max(ratePerSecond * burstSeconds, ofOne) }
}
