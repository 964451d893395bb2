import { z } from 'zod'
import type { RequestLimits } from '../../contract/resolved-reward.ts'

export type { RequestLimits } from '../../contract/resolved-reward.ts'

/** The manager's name in verl, and two aliases from its documentation and discussions. */
export const RATE_LIMITED = 'rate_limited'
export const RATE_LIMITED_ALIASES: Readonly<Record<string, string>> = {
  limited: RATE_LIMITED,
  limit: RATE_LIMITED,
}

/** verl's kwargs of the `rate_limited` manager with its defaults; `burst_seconds` and `compat` are additions. */
export const limitKwargs = z.strictObject({
  max_concurrent: z.int().min(1).default(1).describe('Maximum concurrent calls'),
  max_rpm: z
    .number()
    .positive()
    .nullable()
    .default(null)
    .describe('Maximum calls per minute; null: no limit'),
  max_tpm: z
    .number()
    .positive()
    .nullable()
    .default(null)
    .describe('Maximum tokens per minute; null: no limit'),
  estimated_tokens_per_request: z
    .number()
    .min(0)
    .default(2_000)
    .describe('Estimated tokens per call, until its answer reports the actual number'),
  timeout: z.number().positive().max(86_400).default(300).describe('Timeout of a call, in seconds'),
  burst_seconds: z
    .number()
    .positive()
    .max(60)
    .default(1)
    .describe(
      "Burst capacity after a pause: this many seconds' worth of the limit, at least one call",
    ),
  compat: z
    .enum(['verl'])
    .nullable()
    .default(null)
    .describe('verl: the burst after a pause is one second of the limit, even if less than a call'),
})

const limiterKwarg = z.strictObject({
  limiter: z
    .string()
    .min(1)
    .max(128)
    .nullish()
    .transform((name) => name ?? null)
    .describe('Name under which batches share the limits; default: the model'),
})

/** The kwargs and the limiter's name. verl has no such name, because it has one limiter per process. */
export const rateLimitedOptions = limitKwargs.extend(limiterKwarg.shape)

/** @throws ZodError that names the invalid kwarg */
export function readLimits(kwargs: Record<string, unknown>): RequestLimits {
  const read = limitKwargs.parse(kwargs)
  return {
    maxConcurrent: read.max_concurrent,
    maxRpm: read.max_rpm,
    maxTpm: read.max_tpm,
    estimatedTokens: read.estimated_tokens_per_request,
    timeoutMs: read.timeout * 1_000,
    burstSeconds: read.burst_seconds,
    ...(read.compat === null ? {} : { compat: read.compat }),
  }
}

/** Returns the token bucket of a limit. `ofOne` is the number of requests or tokens of a single call. */
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
