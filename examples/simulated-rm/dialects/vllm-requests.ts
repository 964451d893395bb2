import type { ServerSettings } from '../options.ts'
import type { Job, Simulation } from '../simulation.ts'
import { countTokens, pairOf, pairOfMessages, sigmoid, type TextPair, textId } from '../text.ts'
import { before, type Release } from './versions.ts'

/** A pooling request's body as far as it is read; unknown fields are passed over, as vLLM does. */
export interface VllmBody {
  model?: unknown
  input?: unknown
  messages?: unknown
  task?: unknown
  dimensions?: unknown
  encoding_format?: unknown
  use_activation?: unknown
  activation?: unknown
  softmax?: unknown
  normalize?: unknown
  truncate_prompt_tokens?: unknown
  truncation_side?: unknown
  priority?: unknown
  query?: unknown
  queries?: unknown
  documents?: unknown
  items?: unknown
  data_1?: unknown
  data_2?: unknown
  text_1?: unknown
  text_2?: unknown
  top_n?: unknown
}

/** Texts to work on, or why there are none. */
export type ReadTexts = { jobs: Job[]; tokens: number } | { refused: string; param: string | null }

// Releases by the dates of the changes on main; which release has which is inferred from them.
/** `activation` on /classify: #20538, 2025-08-05. */
const ACTIVATION_SINCE: Release = [0, 10, 1]
/** `use_activation`, and `activation` read wrongly beside it: #25524, 2025-10-30. */
const USE_ACTIVATION_SINCE: Release = [0, 11, 1]
/** `activation` read rightly again: #32243, 2026-01-13. Token ids as `input` came in the same days (#32395). */
const BOTH_WORDS_SINCE: Release = [0, 14, 0]
/** `activation` gone and silently ignored, `normalize` refused: #33477, 2026-01-31. */
const ONE_WORD_SINCE: Release = [0, 16, 0]
/** The `messages` form of /classify: #27516, 2025-11-14. */
const MESSAGES_SINCE: Release = [0, 12, 0]

/** What a request makes of a logit, by the words it uses and those the server reads: itself or its sigmoid. */
export function activatedBy(
  settings: Pick<ServerSettings, 'activation' | 'version'>,
  body: VllmBody,
): (logit: number) => number {
  return isRaw(settings, body) ? (logit) => logit : sigmoid
}

function isRaw(
  { activation, version }: Pick<ServerSettings, 'activation' | 'version'>,
  body: VllmBody,
): boolean {
  const now = body.use_activation ?? undefined
  const old = body.activation ?? body.softmax ?? undefined
  switch (activation) {
    case 'identity':
      return true
    case 'ignored':
      return false
    case 'honoured':
      return (now ?? old) === false
    case 'inverted':
      return (now ?? old) === true
  }
  if (before(version, ACTIVATION_SINCE)) return false
  if (before(version, USE_ACTIVATION_SINCE)) return old === false
  // The old word's mere presence was taken for "true".
  if (before(version, BOTH_WORDS_SINCE)) return old === undefined && now === false
  if (before(version, ONE_WORD_SINCE)) return (now ?? old) === false
  return now === false
}

/** Reads the completion form (`input`) or the chat form (`messages`). */
export function readTexts(simulation: Simulation, body: VllmBody): ReadTexts {
  const { version } = simulation.settings
  const wrong = wrongWords(version, body)
  if (wrong !== null) return wrong
  let pairs: { pair: TextPair; tokens?: number }[]
  if (body.messages !== undefined && !before(version, MESSAGES_SINCE)) {
    const pair = pairOfMessages(body.messages)
    if (pair === null) {
      return { refused: 'messages: Input should be a valid list of messages', param: 'messages' }
    }
    pairs = [{ pair }]
  } else {
    const { input } = body
    const ids = !before(version, BOTH_WORDS_SINCE)
    if (typeof input === 'string') pairs = [{ pair: pairOf(input) }]
    else if (!Array.isArray(input) || input.length === 0) {
      return { refused: 'input: Field required', param: 'input' }
    } else if (input.every((text) => typeof text === 'string')) {
      pairs = input.map((text: string) => ({ pair: pairOf(text) }))
    } else if (ids && isIds(input)) pairs = [ofIds(input)]
    else if (ids && input.every(isIds)) pairs = input.map(ofIds)
    else return { refused: 'input: Input should be a valid string', param: 'input' }
  }
  return jobsOf(simulation, body, pairs)
}

/** Reads the two sides of /score and /rerank: 1 to 1, 1 to N or N to N. */
export function readPairs(
  simulation: Simulation,
  body: VllmBody,
):
  | ({ jobs: Job[]; tokens: number } & { documents: string[] })
  | { refused: string; param: string | null } {
  const wrong = wrongWords(simulation.settings.version, body)
  if (wrong !== null) return wrong
  const left = texts(body.queries ?? body.data_1 ?? body.text_1)
  const right = texts(body.documents ?? body.items ?? body.data_2 ?? body.text_2)
  if (left === null || right === null) {
    return { refused: 'queries and documents: texts are required', param: null }
  }
  if (left.length !== 1 && left.length !== right.length) {
    return { refused: 'Input lengths must be either 1:1, 1:N or N:N', param: null }
  }
  const pairs = right.map((response, i) => ({
    pair: { prompt: (left.length === 1 ? left[0] : left[i]) as string, response },
  }))
  const read = jobsOf(simulation, body, pairs)
  return 'refused' in read ? read : { ...read, documents: right }
}

function wrongWords(version: string, body: VllmBody) {
  const { normalize, use_activation: use } = body
  if (normalize !== undefined && normalize !== null && !before(version, ONE_WORD_SINCE)) {
    return {
      refused: 'Parameter `normalize` was removed; use `use_activation`',
      param: 'normalize',
    }
  }
  if (use !== undefined && use !== null && typeof use !== 'boolean') {
    return { refused: 'use_activation: Input should be a valid boolean', param: 'use_activation' }
  }
  if (typeof body.priority === 'number' && body.priority !== 0) {
    return { refused: 'Got priority but Priority scheduling is not enabled.', param: 'priority' }
  }
  return null
}

function jobsOf(
  simulation: Simulation,
  body: VllmBody,
  pairs: { pair: TextPair; tokens?: number }[],
): ReadTexts {
  const { maxModelLen, charsPerToken } = simulation.settings
  const asked = body.truncate_prompt_tokens ?? undefined
  if (asked !== undefined && !(Number.isSafeInteger(asked) && (asked as number) >= -1)) {
    return { refused: 'truncate_prompt_tokens must be -1 or more', param: 'truncate_prompt_tokens' }
  }
  const limit = asked === undefined || asked === -1 ? maxModelLen : (asked as number)
  const jobs: Job[] = []
  let total = 0
  for (const { pair, tokens: known } of pairs) {
    let { prompt, response } = pair
    let tokens = known ?? countTokens(`${prompt} ${response}`, charsPerToken)
    if (tokens > limit && asked !== undefined) {
      const text = prompt === '' ? response : `${prompt}\n${response}`
      const chars = Math.floor(limit * charsPerToken)
      const cut = body.truncation_side === 'right' ? text.slice(0, chars) : text.slice(-chars)
      ;({ prompt, response } = pairOf(cut))
      tokens = limit
    }
    if (tokens > maxModelLen) {
      return {
        refused: `This model's maximum context length is ${maxModelLen} tokens. However, you requested ${tokens} tokens in the input. Please reduce the length of the input.`,
        param: 'input_tokens',
      }
    }
    const promptTokens = prompt === '' ? 0 : Math.min(tokens, countTokens(prompt, charsPerToken))
    jobs.push({ id: textId(prompt, response), prompt, promptTokens, tokens })
    total += tokens
  }
  return { jobs, tokens: total }
}

function isIds(value: unknown): value is number[] {
  return Array.isArray(value) && value.length > 0 && value.every((id) => Number.isSafeInteger(id))
}

/** Token ids have no text here: their list stands for it. */
function ofIds(ids: number[]): { pair: TextPair; tokens: number } {
  return { pair: { prompt: '', response: ids.join(' ') }, tokens: ids.length }
}

/** A text, `{content: [parts]}`, or a list of them. */
function texts(value: unknown): string[] | null {
  const list = Array.isArray(value) ? value : [value]
  const read = list.map((item) => {
    if (typeof item === 'string') return item
    const content = (item as { content?: unknown } | null)?.content
    if (!Array.isArray(content)) return null
    return content.map((part) => String((part as { text?: unknown }).text ?? '')).join('')
  })
  return read.length > 0 && read.every((text) => text !== null) ? (read as string[]) : null
}
