import { messageText } from '../../server/contract/part-rewards.ts'
import type { PartRewards, TokenScores } from '../../server/contract/trainer.ts'
import { formatScore } from '../format/numbers.ts'
import type { TextMark } from './text-marks.ts'

/** The messages of a response. Plain text counts as one message. */
type ResponseMessages = Parameters<typeof messageText>[0]

interface MessageRewards {
  /** The reward of the whole message; null if only spans have rewards. */
  score: number | null
  spans: readonly Span[]
}

type Span = PartRewards['spans'][number]
const NO_REWARDS: MessageRewards = { score: null, spans: [] }

/** Looks up rewards by message. A response may have 10,000 messages and 100,000 spans, so they are grouped once. */
export function rewardsByMessage(rewards: PartRewards | null): (message: number) => MessageRewards {
  const turns = Map.groupBy(rewards?.turns ?? [], ({ message }) => message)
  const spans = Map.groupBy(rewards?.spans ?? [], ({ message }) => message)
  return (message) =>
    turns.has(message) || spans.has(message)
      ? { score: turns.get(message)?.[0]?.score ?? null, spans: spans.get(message) ?? [] }
      : NO_REWARDS
}

export function spanMarks(spans: readonly Span[], text: string): readonly TextMark[] {
  if (spans.length === 0) return NO_MARKS
  const unitOf = codeUnits(text)
  return spans.flatMap(({ start, end, score }): TextMark[] =>
    score === 0 || start === end
      ? []
      : [{ start: unitOf(start), end: unitOf(end), kind: score > 0 ? 'credit' : 'penalty' }],
  )
}

const NO_MARKS: readonly TextMark[] = []

export interface ShownTokens {
  parts: readonly TokenScores[]
  byMessage: ReadonlyMap<number, readonly TokenScores[]>
  /** The range of the scores, extended to include 0. */
  min: number
  max: number
}

/** The token scores of a reward by component. The key of a reward without components is null. */
export function tokensByComponent(rewards: PartRewards | null): Map<string | null, ShownTokens> {
  const parts = Map.groupBy(rewards?.tokens ?? [], ({ component }) => component)
  return new Map(
    [...parts].map(([component, own]) => {
      const scale = { min: 0, max: 0 }
      for (const { scores } of own) {
        for (const score of scores) {
          scale.min = Math.min(scale.min, score)
          scale.max = Math.max(scale.max, score)
        }
      }
      const byMessage = Map.groupBy(own, ({ message }) => message)
      return [component, { parts: own, byMessage, ...scale }]
    }),
  )
}

/** The marks of the tokens of one message. Tokens without text have no mark. */
export function tokenMarks(tokens: ShownTokens | null, message: number, text: string): TextMark[] {
  const peak = Math.max(tokens?.max ?? 0, -(tokens?.min ?? 0))
  const own = tokens?.byMessage.get(message)?.filter(({ starts }) => starts !== null) ?? []
  if (own.length === 0 || peak === 0) return []
  const unitOf = codeUnits(text)
  return own.flatMap(({ starts, ends, scores }) =>
    scores.flatMap((score, i): TextMark[] => {
      const [start, end] = [unitOf(starts?.[i] as number), unitOf(ends?.[i] as number)]
      const title = `Token ${JSON.stringify(text.slice(start, end))}: ${formatScore(score)}`
      return start === end ? [] : [{ start, end, kind: 'token', level: score / peak, title }]
    }),
  )
}

export interface ListedToken {
  message: number
  /** Start of the token in the text, in code points; null if it is unknown. */
  start: number | null
  /** The text of the token: null if it is unknown, empty if the token is part of a character. */
  text: string | null
  score: number
}

export function listedTokens({ parts }: ShownTokens, response: ResponseMessages): ListedToken[] {
  return parts.flatMap(({ message, starts, ends, scores }) => {
    const text = messageText(response, message) ?? ''
    const unitOf = codeUnits(text)
    return scores.map((score, i) => {
      const [start, end] = [starts?.[i] ?? null, ends?.[i] ?? null]
      const own = start === null || end === null ? null : text.slice(unitOf(start), unitOf(end))
      return { message, start, text: own, score }
    })
  })
}

export interface RewardedPart {
  message: number
  /** The text of a span; null for a whole message. */
  text: string | null
  score: number
}

/** All rewarded parts in the order of the response, a message before its spans. */
export function rewardedParts(rewards: PartRewards, response: ResponseMessages): RewardedPart[] {
  const spans = [...Map.groupBy(rewards.spans, ({ message }) => message)]
  return [
    ...rewards.turns.map(({ message, score }) => ({ message, start: -1, text: null, score })),
    ...spans.flatMap(([message, own]) => {
      const text = messageText(response, message) ?? ''
      const unitOf = codeUnits(text)
      return own.map(({ start, end, score }) => ({
        ...{ message, start, text: text.slice(unitOf(start), unitOf(end)), score },
      }))
    }),
  ]
    .sort((a, b) => a.message - b.message || a.start - b.start)
    .map(({ message, text, score }) => ({ message, text, score }))
}

/** Maps an offset in code points to one in UTF-16 code units. */
function codeUnits(text: string): (codePoints: number) => number {
  if (!/[\ud800-\udbff]/.test(text)) return (codePoints) => Math.min(codePoints, text.length)
  const starts: number[] = []
  let unit = 0
  for (const char of text) {
    starts.push(unit)
    unit += char.length
  }
  return (codePoints) => starts[codePoints] ?? text.length
}
