import type { Answer } from '../call.ts'
import type { ServerSettings } from '../options.ts'
import type { Job, Simulation } from '../simulation.ts'
import {
  countTokens,
  labelLogits,
  pairOf,
  pairOfMessages,
  sigmoid,
  softmax,
  type TextPair,
  textId,
} from '../text.ts'
import { before, type Release } from './versions.ts'
import {
  badRequest,
  invalidBody,
  missing,
  SECOND_WORDS_SINCE,
  type SentAs,
  THIRD_WORDS_SINCE,
  tooLong,
} from './vllm-errors.ts'

/** The fields of a pooling request that are read. Other fields are ignored, as in vLLM. */
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
  add_special_tokens?: unknown
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

export type ReadTexts = { jobs: Job[]; tokens: number } | { refused: Answer }

// These releases are inferred from the dates of changes on vLLM's main branch.
/** /classify reads `activation`: vLLM's pull request #20538, 2025-08-05. */
const ACTIVATION_SINCE: Release = [0, 10, 1]
/** /classify reads `use_activation` and misreads `activation`: vLLM's pull request #25524, 2025-10-30. */
const USE_ACTIVATION_SINCE: Release = [0, 11, 1]
/** `activation` is read correctly again: vLLM's pull request #32243, 2026-01-13. */
const BOTH_WORDS_SINCE: Release = [0, 14, 0]
/**
 * `activation` is removed and silently ignored, and `normalize` is refused: vLLM's pull request #33477, 2026-01-31.
 * Token ids as `input` are accepted; 0.14.0 refuses them.
 */
const ONE_WORD_SINCE: Release = [0, 16, 0]
/** /classify accepts `messages`: vLLM's pull request #27516, 2025-11-14. */
const MESSAGES_SINCE: Release = [0, 12, 0]

/** The function from logit to score: identity or sigmoid, depending on the parameters that this version reads. */
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
  // 0.14.0 reads `normalize` too; 0.11.0 ignores it.
  const either = now ?? old ?? body.normalize ?? undefined
  switch (activation) {
    case 'identity':
      return true
    case 'ignored':
      return false
    case 'honored':
      return (now ?? old) === false
    case 'inverted':
      return (now ?? old) === true
  }
  if (before(version, ACTIVATION_SINCE)) return false
  if (before(version, USE_ACTIVATION_SINCE)) return old === false
  // These versions read any value of the old parameter as true.
  if (before(version, BOTH_WORDS_SINCE)) return old === undefined && now === false
  if (before(version, ONE_WORD_SINCE)) return either === false
  return now === false
}

/**
 * Returns a text's value for each label, as the request specifies: logits, a softmax over several labels, or the sigmoid
 * of a single label.
 */
export function labelsBy(
  settings: Pick<ServerSettings, 'activation' | 'version' | 'labels'>,
  body: VllmBody,
  logit: number,
): number[] {
  const logits = labelLogits(logit, settings.labels)
  if (isRaw(settings, body)) return logits
  return logits.length > 1 ? softmax(logits) : logits.map(sigmoid)
}

/** transformers' message about a missing chat template. */
export const NO_TEMPLATE =
  'As of transformers v4.44, default chat template is no longer allowed, so you must provide a chat template if the tokenizer does not define one.'

interface Read {
  pair: TextPair
  tokens?: number
}

/** Parses the completion form (`input`) or the chat form (`messages`). */
export function readTexts(simulation: Simulation, body: VllmBody, api: SentAs): ReadTexts {
  const { version, hasChatTemplate } = simulation.settings
  const wrong = wrongWords(version, body)
  if (wrong !== null) return wrong
  const chats = api === 'pooling' || !before(version, MESSAGES_SINCE)
  if (body.messages !== undefined && chats) {
    const pair = pairOfMessages(body.messages)
    if (pair === null) {
      return { refused: badRequest(version, 'messages: Input should be a valid list', 'messages') }
    }
    if (!hasChatTemplate) return { refused: badRequest(version, NO_TEMPLATE) }
    return jobsOf(simulation, body, [{ pair }], api)
  }
  const { input } = body
  const others = [...(chats ? ['messages'] : []), ...(api === 'pooling' ? ['data'] : [])]
  if (input === undefined) {
    return { refused: invalidBody(version, ['input', ...others].map(missing)) }
  }
  const read = readInput(simulation, body, input)
  if (read === null) {
    const string = { type: 'string_type', message: 'Input should be a valid string' } as const
    const wrongOnes = Array.isArray(input)
      ? input.map(() => ({ ...string, field: 'list[str]' }))
      : []
    const rules = [...wrongOnes, { ...string, field: 'str' }, ...others.map(missing)]
    return { refused: invalidBody(version, rules) }
  }
  return Array.isArray(read) ? jobsOf(simulation, body, read, 'input') : read
}

/** The texts or token ids of `input`; null if it is neither. */
function readInput(
  { settings: { version } }: Simulation,
  body: VllmBody,
  input: unknown,
): Read[] | { refused: Answer } | null {
  if (input === '' && before(version, THIRD_WORDS_SINCE)) {
    const message = before(version, SECOND_WORDS_SINCE)
      ? 'Input cannot be empty for classification'
      : 'Input or messages must be provided'
    return { refused: badRequest(version, message) }
  }
  const list = typeof input === 'string' ? [input] : input
  if (!Array.isArray(list) || list.length === 0) return null
  if (list.every((text) => typeof text === 'string')) {
    // With a BOS token an empty text has one token. 0.11.0 adds the BOS token regardless of the request.
    const hasBos = body.add_special_tokens !== false || before(version, SECOND_WORDS_SINCE)
    if (!hasBos && list.includes('')) {
      return { refused: badRequest(version, 'The decoder prompt cannot be empty') }
    }
    return list.map((text: string) => ({ pair: pairOf(text) }))
  }
  if (before(version, ONE_WORD_SINCE)) return null
  if (isIds(list)) return [ofIds(list)]
  return list.every(isIds) ? list.map(ofIds) : null
}

/** Parses the two sides of /score and /rerank: 1 to 1, 1 to N or N to N. */
export function readPairs(
  simulation: Simulation,
  body: VllmBody,
): ({ jobs: Job[]; tokens: number } & { documents: string[] }) | { refused: Answer } {
  const { version } = simulation.settings
  const wrong = wrongWords(version, body)
  if (wrong !== null) return wrong
  const current = !before(version, THIRD_WORDS_SINCE)
  const left = texts((current ? (body.queries ?? body.data_1) : undefined) ?? body.text_1)
  const right = texts(
    (current ? (body.documents ?? body.items ?? body.data_2) : undefined) ?? body.text_2,
  )
  if (left === null || right === null) {
    const fields = current
      ? ['queries', 'documents', 'queries', 'items', 'data_1', 'data_2', 'text_1', 'text_2']
      : ['text_1', 'text_2']
    return { refused: invalidBody(version, fields.map(missing)) }
  }
  if (left.length !== 1 && left.length !== right.length) {
    return { refused: badRequest(version, 'Input lengths must be either 1:1, 1:N or N:N') }
  }
  const pairs = right.map((response, i) => ({
    pair: { prompt: (left.length === 1 ? left[0] : left[i]) as string, response },
  }))
  const read = jobsOf(simulation, body, pairs, 'score')
  return 'refused' in read ? read : { ...read, documents: right }
}

export function readRanking(simulation: Simulation, body: VllmBody): ReturnType<typeof readPairs> {
  const { version } = simulation.settings
  const { query, documents } = body
  if (query === undefined || documents === undefined) {
    return { refused: invalidBody(version, ['query', 'documents'].map(missing)) }
  }
  return readPairs(simulation, { ...body, text_1: query, text_2: documents })
}

function wrongWords(version: string, body: VllmBody) {
  const { normalize, use_activation: use } = body
  if (normalize !== undefined && normalize !== null && !before(version, ONE_WORD_SINCE)) {
    const message =
      'Parameter `normalize` was removed; use `use_activation` instead. (parameter=normalize)'
    return { refused: badRequest(version, message, 'normalize') }
  }
  if (use !== undefined && use !== null && typeof use !== 'boolean') {
    const message = 'use_activation: Input should be a valid boolean'
    return { refused: badRequest(version, message, 'use_activation') }
  }
  if (typeof body.priority === 'number' && body.priority !== 0) {
    const message = 'Got priority but Priority scheduling is not enabled.'
    return { refused: badRequest(version, message, 'priority') }
  }
  return null
}

function jobsOf(simulation: Simulation, body: VllmBody, pairs: Read[], sentAs: SentAs): ReadTexts {
  const { maxModelLen, charsPerToken, version } = simulation.settings
  const requested = body.truncate_prompt_tokens ?? undefined
  if (
    requested !== undefined &&
    !(Number.isSafeInteger(requested) && (requested as number) >= -1)
  ) {
    const message = 'truncate_prompt_tokens must be -1 or more'
    return { refused: badRequest(version, message, 'truncate_prompt_tokens') }
  }
  const limit = requested === undefined || requested === -1 ? maxModelLen : (requested as number)
  const jobs: Job[] = []
  let total = 0
  for (const { pair, tokens: known } of pairs) {
    let { prompt, response } = pair
    let tokens = known ?? countTokens(`${prompt} ${response}`, charsPerToken)
    if (tokens > limit && requested !== undefined) {
      const text = prompt === '' ? response : `${prompt}\n${response}`
      const chars = Math.floor(limit * charsPerToken)
      const cut = body.truncation_side === 'right' ? text.slice(0, chars) : text.slice(-chars)
      ;({ prompt, response } = pairOf(cut))
      tokens = limit
    }
    if (tokens > maxModelLen) {
      return { refused: tooLong(version, sentAs, tokens, maxModelLen) }
    }
    const promptTokens = prompt === '' ? 0 : Math.min(tokens, countTokens(prompt, charsPerToken))
    jobs.push({ id: textId(prompt, response), prompt, response, promptTokens, tokens })
    total += tokens
  }
  return { jobs, tokens: total }
}

function isIds(value: unknown): value is number[] {
  return Array.isArray(value) && value.length > 0 && value.every((id) => Number.isSafeInteger(id))
}

/** A list of token ids as a text, because the simulation has no tokenizer. */
function ofIds(ids: number[]): { pair: TextPair; tokens: number } {
  return { pair: { prompt: '', response: ids.join(' ') }, tokens: ids.length }
}

/** Reads a text, `{content: [parts]}`, or a list of these; null for anything else. */
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
