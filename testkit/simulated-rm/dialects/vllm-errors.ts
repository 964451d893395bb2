import { type Answer, json } from '../call.ts'
import type { DeadAnswer } from './dialect.ts'
import { before, type Release } from './versions.ts'

/** vLLM's pull request #22099 of 2025-08-06 introduced the nested error body. */
const NESTED_ERRORS_SINCE: Release = [0, 10, 1]
/** Start of the second generation of messages. Recordings of 0.11.0 and 0.14.0 differ; this release is inferred. */
export const SECOND_WORDS_SINCE: Release = [0, 12, 0]
/** Start of the third generation of messages. Recordings of 0.14.0 and 0.32.0 differ; this release is inferred. */
export const THIRD_WORDS_SINCE: Release = [0, 16, 0]

export function vllmError(
  version: string,
  status: number,
  type: string,
  message: string,
  param: string | null = null,
): Answer {
  const error = { message, type, param, code: status }
  return before(version, NESTED_ERRORS_SINCE)
    ? json(status, { object: 'error', ...error })
    : json(status, { error })
}

/** The answer to a request that the engine refuses after parsing. */
export function badRequest(version: string, message: string, param: string | null = null): Answer {
  return vllmError(version, 400, 'BadRequestError', message, param)
}

/** One validation rule that a body breaks, in pydantic's terms. */
export interface BrokenRule {
  type: 'missing' | 'string_type' | 'json_invalid' | 'model_attributes_type'
  field: string
  message: string
}

export function missing(field: string): BrokenRule {
  return { type: 'missing', field, message: 'Field required' }
}

/** The answer to a body that breaks pydantic's rules. Older releases write locations as tuples. */
export function invalidBody(version: string, rules: BrokenRule[]): Answer {
  const isTuple = before(version, THIRD_WORDS_SINCE)
  const lines = rules.map(({ type, field, message }) => {
    const name = /^\d+$/.test(field) ? field : `'${field}'`
    const place = isTuple
      ? `('body'${field === '' ? ',' : `, ${name}`})`
      : `'body${field === '' ? '' : `.${field}`}'`
    return `  {'type': '${type}', 'loc': ${place}, 'msg': '${message}', 'input': ${isTuple ? '{}' : "'<dict of 0 items>'"}}`
  })
  const head = `${rules.length} validation error${rules.length === 1 ? '' : 's'}:`
  const first = rules[0]?.field
  const param = isTuple ? null : first === '' ? 'body' : `body.${first}`
  return vllmError(version, 400, 'Bad Request', [head, ...lines].join('\n'), param)
}

export function wrongMediaType(version: string): Answer {
  const said = "Unsupported Media Type: Only 'application/json' is allowed"
  const more = before(version, THIRD_WORDS_SINCE) ? ` ["${said}"]` : ''
  return vllmError(version, 400, 'Bad Request', `1 validation error:\n  ${said}${more}`)
}

export function unknownModel(version: string, model: string): Answer {
  const param =
    !before(version, SECOND_WORDS_SINCE) && before(version, THIRD_WORDS_SINCE) ? 'model' : null
  return vllmError(version, 404, 'NotFoundError', `The model \`${model}\` does not exist.`, param)
}

/** The answer of a route that the model does not support. Older releases answer 200 with the error in the body. */
export function unsupported(version: string, api: string): Answer {
  const message = `The model does not support ${api} API`
  return before(version, THIRD_WORDS_SINCE)
    ? { ...badRequest(version, message), status: 200 }
    : vllmError(version, 501, 'NotImplementedError', message)
}

/** The kind of request, as named in the message for a text over the limit. */
export type SentAs = 'input' | 'classification' | 'score' | 'pooling'

export function tooLong(version: string, sentAs: SentAs, tokens: number, limit: number): Answer {
  const head = `This model's maximum context length is ${limit} tokens. However,`
  if (!before(version, THIRD_WORDS_SINCE)) {
    // Counting stops at the first token over the limit.
    const least = limit + 1
    return badRequest(
      version,
      `${head} your prompt contains at least ${least} input tokens, which exceeds this limit even without any output tokens. Please reduce the length of the input prompt. (parameter=input_tokens, value=${least})`,
      'input_tokens',
    )
  }
  const value = before(version, SECOND_WORDS_SINCE)
    ? ''
    : ` (parameter=input_tokens, value=${tokens})`
  return badRequest(
    version,
    sentAs === 'input'
      ? `${head} your request has ${tokens} input tokens. Please reduce the length of the input messages.${value}`
      : `${head} you requested ${tokens} tokens in the input for ${sentAs}. Please reduce the length of the input.${value}`,
  )
}

const ENGINE_DEAD = 'EngineCore encountered an issue. See stack trace (above) for the root cause.'

export function engineDead(version: string, as: DeadAnswer, path: string): Answer {
  const isOld = before(version, SECOND_WORDS_SINCE)
  // In the recordings, 0.11.0 answers 400 on /classify, 0.14.0 answers 200 on all routes but /classify, and all other
  // answers are 500.
  const byVersion =
    isOld && path.endsWith('/classify')
      ? '400'
      : !isOld && before(version, THIRD_WORDS_SINCE) && !path.endsWith('/classify')
        ? '200'
        : '500'
  const how = as === 'version' ? byVersion : as
  const code = how === '400' ? 400 : 500
  const type =
    how === '400'
      ? 'BadRequestError'
      : as === 'version' && isOld
        ? 'Internal Server Error'
        : 'InternalServerError'
  return { ...vllmError(version, code, type, ENGINE_DEAD), status: Number(how) }
}
