import { z } from 'zod'
import type { Draws } from './draw.ts'

const share = z.coerce.number().min(0).max(1)
const ms = z.coerce.number().min(0).max(86_400_000)

/** Forms in which a refusal states the retry delay. */
const retryAfter = {
  /** `seconds` and `date` set the header Retry-After, `ms` sets retry-after-ms, `x-ms` sets x-ms-retry-after-ms. */
  retryAfter: z.enum(['none', 'seconds', 'date', 'ms', 'x-ms']).default('none'),
  retryAfterMs: ms.default(1000),
}

/** All faults with their parameters. Each fault strikes a share of the requests, drawn for each request or text. */
const FAULTS = {
  /** The request takes `factor` times as long. */
  slow: z.strictObject({ share, factor: z.coerce.number().positive().default(5) }),
  /** The request is accepted, never answered and keeps its slot. */
  hang: z.strictObject({ share }),
  /** The connection is cut without an answer. */
  drop: z.strictObject({ share }),
  /** A redirect (307) to another path. */
  redirect: z.strictObject({ share }),
  /** The connection is cut in the middle of the answer. */
  dieMidBody: z.strictObject({ share }),
  /** 500 without any work, after `delayMs`. */
  error500: z.strictObject({ share, delayMs: ms.default(0) }),
  /** 503, the engine's "queue is full". */
  full503: z.strictObject({ share, ...retryAfter }),
  /** 429, the engine's rate limit. */
  limited429: z.strictObject({ share, ...retryAfter }),
  /** An HTML page from another program, such as a proxy. */
  html: z.strictObject({ share, status: z.coerce.number().int().min(200).max(599).default(200) }),
  /**
   * The engine died and the process still answers, as in vLLM. `version`: as the server's version answers. `400`: as
   * 0.11 answers. `200`: with an error in the body, as 0.14 answers on /pooling and /score. `500`: as later releases
   * answer.
   */
  engineDead: z.strictObject({
    share,
    as: z.enum(['version', '400', '200', '500']).default('version'),
  }),
  /** The scoring route is missing: another program, another base path, or a route without a handler. */
  routeMissing: z.strictObject({
    share,
    status: z.coerce
      .number()
      .pipe(z.union([z.literal(404), z.literal(405), z.literal(501)]))
      .default(404),
  }),
  /** A client error with an unknown message. */
  refused: z.strictObject({
    share,
    status: z.coerce.number().int().min(400).max(499).default(400),
    message: z.string().default('The request was not accepted.'),
  }),
  /** The score is NaN, written literally (`literal`) or as the engine itself answers (`engine`). */
  nan: z.strictObject({ share, as: z.enum(['literal', 'engine']).default('literal') }),
  null: z.strictObject({ share }),
  /** The answer has one extra entry; a judge's answer has empty `choices`. */
  wrongLength: z.strictObject({ share }),
  /** A judge's reply is aborted half-way: 200 with `finish_reason: "abort"`. */
  abort: z.strictObject({ share }),
  /** Other weights score the texts. */
  drift: z.strictObject({ share, weights: z.coerce.number().int().min(0).default(0xd217) }),
}

export type FaultName = keyof typeof FAULTS
export type FaultSettings = { [N in FaultName]?: z.output<(typeof FAULTS)[N]> }

/** Accepts a bare share, which stands for the fault with its default parameters. */
function orShare<T extends z.ZodType>(fault: T) {
  return z.preprocess(
    (value) => (typeof value === 'object' ? value : { share: value }),
    fault,
  ) as unknown as z.ZodType<z.output<T>, number | z.input<T>>
}

export const FaultChange = z
  .strictObject({
    slow: orShare(FAULTS.slow),
    hang: orShare(FAULTS.hang),
    drop: orShare(FAULTS.drop),
    redirect: orShare(FAULTS.redirect),
    dieMidBody: orShare(FAULTS.dieMidBody),
    error500: orShare(FAULTS.error500),
    full503: orShare(FAULTS.full503),
    limited429: orShare(FAULTS.limited429),
    html: orShare(FAULTS.html),
    engineDead: orShare(FAULTS.engineDead),
    routeMissing: orShare(FAULTS.routeMissing),
    refused: orShare(FAULTS.refused),
    nan: orShare(FAULTS.nan),
    null: orShare(FAULTS.null),
    wrongLength: orShare(FAULTS.wrongLength),
    abort: orShare(FAULTS.abort),
    drift: orShare(FAULTS.drift),
  })
  .partial()

/** At most one of these strikes a request: the first that is drawn. */
const ALONE = [
  'hang',
  'drop',
  'redirect',
  'error500',
  'full503',
  'limited429',
  'html',
  'engineDead',
  'routeMissing',
  'refused',
  'dieMidBody',
  'nan',
  'null',
  'wrongLength',
  'abort',
] as const satisfies FaultName[]

export interface Struck {
  fault: (typeof ALONE)[number] | null
  /** 1 for normal speed. */
  slowFactor: number
  /** Seed of the weights that score the request, or null for the server's own weights. */
  driftedWeights: number | null
}

export const UNSTRUCK: Struck = { fault: null, slowFactor: 1, driftedWeights: null }

export function drawFaults(
  faults: FaultSettings,
  draws: Draws,
  onStruck: (name: FaultName) => void,
): Struck {
  const strikes = (name: FaultName): boolean => {
    const set = faults[name]
    if (set === undefined || set.share === 0 || draws.next() >= set.share) return false
    onStruck(name)
    return true
  }
  return {
    fault: ALONE.find(strikes) ?? null,
    slowFactor: strikes('slow') ? (faults.slow?.factor ?? 1) : 1,
    driftedWeights: strikes('drift') ? (faults.drift?.weights ?? null) : null,
  }
}

export function retryAfterHeaders(
  set: { retryAfter: string; retryAfterMs: number },
  nowEpochMs: number,
): Record<string, string> {
  const { retryAfter: form, retryAfterMs } = set
  switch (form) {
    case 'seconds':
      return { 'retry-after': String(Math.ceil(retryAfterMs / 1000)) }
    case 'date':
      return { 'retry-after': new Date(nowEpochMs + retryAfterMs).toUTCString() }
    case 'ms':
      return { 'retry-after-ms': String(retryAfterMs) }
    case 'x-ms':
      return { 'x-ms-retry-after-ms': String(retryAfterMs) }
    default:
      return {}
  }
}
