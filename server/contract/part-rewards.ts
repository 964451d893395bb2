import { decimalSum } from './decimal-sum.ts'
import type { PartRewards, TokenScores } from './trainer.ts'
import { contentText, type TurnContent } from './turn-text.ts'

/** Returns the text that the span offsets of a message refer to: its content, with parts joined as text. */
export function messageText(
  response: string | readonly { content?: TurnContent | null | undefined }[],
  message: number,
): string | undefined {
  if (typeof response === 'string') return message === 0 ? response : undefined
  const found = response[message]
  return found === undefined ? undefined : contentText(found.content)
}

/**
 * Describes the first reward that does not fit the response: a message, span or token that the response does not have,
 * or columns of token scores that differ in length. Returns null if all rewards fit.
 */
export function partRewardsProblem(
  { turns, spans, tokens = [] }: PartRewards,
  response: string | readonly { content?: TurnContent | null | undefined }[],
): string | null {
  const count = typeof response === 'string' ? 1 : response.length
  for (const { message } of [...turns, ...spans, ...tokens]) {
    if (message >= count) {
      return `refer to message ${message}, but the response has only ${count === 1 ? 'message 0' : `messages 0 to ${count - 1}`}`
    }
  }
  const lengths = new Map<number, number>()
  const lengthOf = (message: number): number => {
    const known = lengths.get(message)
    if (known !== undefined) return known
    const length = codePoints(messageText(response, message) ?? '')
    lengths.set(message, length)
    return length
  }
  const beyond = (what: string, message: number, end: number) =>
    `have a ${what} that ends at ${end} in message ${message}, which has ${lengthOf(message)} code points`
  const span = spans.find(({ message, end }) => end > lengthOf(message))
  if (span !== undefined) return beyond('span', span.message, span.end)
  for (const { message, starts, ends, scores } of tokens) {
    const isWhole = starts?.length === ends?.length && (starts ?? scores).length === scores.length
    if (!isWhole) return `have token scores of message ${message} whose columns differ in length`
    const at = ends?.findIndex((end, i) => end < (starts?.[i] as number)) ?? -1
    if (at >= 0) return `have a token that ends before it starts, in message ${message}`
    const end = ends?.find((end) => end > lengthOf(message))
    if (end !== undefined) return beyond('token', message, end)
  }
  return null
}

export function codePoints(text: string): number {
  let n = 0
  for (const _ of text) n++
  return n
}

/**
 * Reads rewards from user code. Returns null if they are malformed. It uses no zod schema, because loading zod would
 * slow down the start of function processes.
 */
export function readPartRewards(given: unknown): PartRewards | null {
  if (typeof given !== 'object' || given === null || Array.isArray(given)) return null
  const { turns = [], spans = [], tokens, ...others } = given as Record<string, unknown>
  if (Object.keys(others).length > 0 || !Array.isArray(turns) || !Array.isArray(spans)) return null
  const isTurn = hasNumbers(['message', 'score'])
  const isSpan = hasNumbers(['message', 'start', 'end', 'score'])
  if (!turns.every(isTurn) || !spans.every(isSpan)) return null
  if (tokens === undefined) return { turns, spans } as PartRewards
  if (!Array.isArray(tokens) || !tokens.every(isTokenScores)) return null
  return { turns, spans, tokens } as PartRewards
}

function isTokenScores(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false
  const { component, message, starts, ends, scores, omitted, problem, ...others } = value as Record<
    string,
    unknown
  >
  const isText = (text: unknown) => text === null || typeof text === 'string'
  const areOffsets = (list: unknown) =>
    list === null || (Array.isArray(list) && list.every(isWholeNumber))
  return (
    Object.keys(others).length === 0 &&
    [component, problem].every(isText) &&
    [message, omitted].every(isWholeNumber) &&
    [starts, ends].every(areOffsets) &&
    Array.isArray(scores) &&
    scores.every((score) => Number.isFinite(score))
  )
}

function isWholeNumber(value: unknown): boolean {
  return Number.isSafeInteger(value) && (value as number) >= 0
}

function hasNumbers(fields: readonly string[]): (value: unknown) => boolean {
  return (value) => {
    if (typeof value !== 'object' || value === null) return false
    const given = value as Record<string, unknown>
    if (Object.keys(given).length !== fields.length) return false
    return fields.every((name) => {
      const number = given[name]
      return name === 'score' ? Number.isFinite(number) : isWholeNumber(number)
    })
  }
}

/**
 * Returns the weighted sum of turn and span rewards over the components of a composite reward. The tokens of different
 * models differ, so token scores are weighted and listed by component, not summed.
 */
export function combinedRewards(
  given: readonly { name: string; weight: number; rewards: PartRewards }[],
): PartRewards {
  const turns = new Map<number, { message: number; terms: number[] }>()
  const spans = new Map<string, Omit<PartRewards['spans'][number], 'score'> & { terms: number[] }>()
  const tokens: TokenScores[] = []
  for (const { name, weight, rewards } of given) {
    for (const { message, score } of rewards.turns) {
      const turn = turns.get(message) ?? { message, terms: [] }
      turn.terms.push(weight * score)
      turns.set(message, turn)
    }
    for (const { message, start, end, score } of rewards.spans) {
      const key = `${message}/${start}/${end}`
      const span = spans.get(key) ?? { message, start, end, terms: [] }
      span.terms.push(weight * score)
      spans.set(key, span)
    }
    for (const one of rewards.tokens ?? []) {
      const scores = one.scores.map((score) => weight * score)
      tokens.push({ ...one, component: name, scores })
    }
  }
  const summed = <T extends { terms: number[] }>({ terms, ...part }: T) => ({
    ...part,
    score: decimalSum(terms),
  })
  const all = { turns: [...turns.values()].map(summed), spans: [...spans.values()].map(summed) }
  return tokens.length === 0 ? all : { ...all, tokens }
}
