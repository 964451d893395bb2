import { messageText } from '../../server/contract/part-rewards.ts'
import type { PartRewards } from '../../server/contract/trainer.ts'
import type { TextMark } from './text-marks.ts'

/** The messages of a response: one for plain text. */
type ResponseMessages = Parameters<typeof messageText>[0]

/** The reward of a whole message; null: it has none. */
export function turnScore(rewards: PartRewards | null, message: number): number | null {
  return rewards?.turns.find((turn) => turn.message === message)?.score ?? null
}

/** The marks of a message's rewarded spans. */
export function spanMarks(
  rewards: PartRewards | null,
  message: number,
  text: string,
): readonly TextMark[] {
  const spans = rewards?.spans.filter((span) => span.message === message) ?? []
  if (spans.length === 0) return NO_MARKS
  const unitOf = codeUnits(text)
  return spans.flatMap(({ start, end, score }): TextMark[] =>
    score === 0 || start === end
      ? []
      : [{ start: unitOf(start), end: unitOf(end), kind: score > 0 ? 'credit' : 'penalty' }],
  )
}

const NO_MARKS: readonly TextMark[] = []

/** A rewarded part for a list: the message, its text and its score. */
export interface RewardedPart {
  message: number
  /** The text of a span; null: the whole message. */
  text: string | null
  score: number
}

/** All rewarded parts in the order of the response, a message before its spans. */
export function rewardedParts(rewards: PartRewards, response: ResponseMessages): RewardedPart[] {
  return [
    ...rewards.turns.map(({ message, score }) => ({ message, start: -1, text: null, score })),
    ...rewards.spans.map(({ message, start, end, score }) => {
      const text = messageText(response, message) ?? ''
      const unitOf = codeUnits(text)
      return { message, start, text: text.slice(unitOf(start), unitOf(end)), score }
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
