import { z } from 'zod'
import { nearestName } from '../nearest-name.ts'
import { overlongPenalty } from '../rules/overlong-penalty.ts'

/** `overlong_buffer_cfg` as verl's `dapo` manager reads it, plus `clamp`. Lengths are in tokens. */
const bufferOptions = z.strictObject({
  enable: z.boolean().describe('Apply the penalty'),
  len: z
    .int()
    .min(0)
    .optional()
    .describe('Number of tokens before max_resp_len over which the penalty grows'),
  penalty_factor: z.number().min(0).default(1).describe('Penalty at max_resp_len'),
  log: z.boolean().default(false).describe('Also return overlong_reward and overlong'),
  clamp: z
    .boolean()
    .default(false)
    .describe('true: clamp at -penalty_factor, as in the paper; false: no clamp, as in verl'),
})

/** The kwargs of the `dapo` manager; the others belong to the rule. */
export const dapoOptions = z.strictObject({
  max_resp_len: z.int().min(1).nullish().describe('Maximum response length, in tokens'),
  overlong_buffer_cfg: bufferOptions.nullish().describe('Penalty for overlong responses'),
})

export const DAPO_KWARGS: readonly string[] = Object.keys(dapoOptions.shape)

export interface OverlongBuffer {
  maxResponseLength: number
  bufferLength: number
  penaltyFactor: number
  log: boolean
  clamp: boolean
}

/** The result of {@link readOverlongBuffer}. `buffer` is null if the buffer is disabled. */
export type OverlongBufferRead =
  | { ok: true; buffer: OverlongBuffer | null }
  | { ok: false; message: string; hint: string }

/**
 * Reads `max_resp_len` and `overlong_buffer_cfg` from a batch's kwargs. As in verl 2026-08, a disabled buffer needs no
 * other kwarg. An enabled one needs a `len` above 0 and a `max_resp_len` of at least `len`.
 */
export function readOverlongBuffer(kwargs: Record<string, unknown>): OverlongBufferRead {
  const own = Object.fromEntries(
    DAPO_KWARGS.filter((key) => Object.hasOwn(kwargs, key)).map((key) => [key, kwargs[key]]),
  )
  const parsed = dapoOptions.safeParse(own)
  if (!parsed.success) return explain(parsed.error)
  const { max_resp_len: maxResponseLength, overlong_buffer_cfg: config } = parsed.data
  if (!config?.enable) return { ok: true, buffer: null }
  if (maxResponseLength === undefined || maxResponseLength === null) {
    return refuse(
      'kwarg "max_resp_len" is missing, and overlong_buffer_cfg is enabled',
      'Set max_resp_len to the longest response allowed (verl: data.max_response_length).',
    )
  }
  if (config.len === undefined || config.len === 0) {
    return refuse(
      'kwarg "overlong_buffer_cfg.len" must be above 0 when the buffer is enabled',
      'Set overlong_buffer_cfg.enable to false to omit the penalty.',
    )
  }
  if (config.len > maxResponseLength) {
    return refuse(
      `kwarg "overlong_buffer_cfg.len" (${config.len}) is larger than max_resp_len (${maxResponseLength})`,
      'The buffer is the last part of the longest response.',
    )
  }
  const { len, penalty_factor: penaltyFactor, log, clamp } = config
  return { ok: true, buffer: { maxResponseLength, bufferLength: len, penaltyFactor, log, clamp } }
}

/** Returns the penalty for a response's length, at most 0. `extra` is the extra info that verl adds if `log` is set. */
export function penaltyOf(
  buffer: OverlongBuffer,
  responseLength: number,
): { penalty: number; extra: { overlong_reward: number; overlong: boolean } | null } {
  const { penalty, overlong } = overlongPenalty({ ...buffer, validResponseLength: responseLength })
  const kept = buffer.clamp ? Math.max(penalty, -buffer.penaltyFactor) : penalty
  return {
    penalty: kept,
    extra: buffer.log ? { overlong_reward: kept, overlong } : null,
  }
}

function refuse(message: string, hint: string): OverlongBufferRead {
  return { ok: false, message, hint }
}

function explain(error: z.ZodError): OverlongBufferRead {
  const issue = error.issues[0]!
  const path = issue.path.join('.')
  if (issue.code === 'unrecognized_keys') {
    const [key = ''] = issue.keys
    const known = Object.keys(bufferOptions.shape)
    const nearest = nearestName(key, known)
    return refuse(
      `unknown kwarg "${path}.${key}"` +
        (nearest === undefined ? '' : `, did you mean "${nearest}"?`),
      `Known to ${path}: ${known.join(', ')}.`,
    )
  }
  const option = (path.startsWith('overlong_buffer_cfg.') ? bufferOptions : dapoOptions).shape
  const described = (option as Record<string, z.ZodType>)[String(issue.path.at(-1))]?.description
  return refuse(
    `kwarg "${path}" of manager dapo is not valid: ${issue.message}`,
    `${described ?? path}.`,
  )
}
