import type { PartRewards } from './trainer.ts'
import { contentText, type TurnContent } from './turn-text.ts'

/** Returns the text to which the span offsets of a message refer: its content, with parts joined as text. */
export function messageText(
  response: string | readonly { content?: TurnContent | null | undefined }[],
  message: number,
): string | undefined {
  if (typeof response === 'string') return message === 0 ? response : undefined
  const found = response[message]
  return found === undefined ? undefined : contentText(found.content)
}

/** Describes the first reward for a message or span that the response does not have; null: all exist. */
export function partRewardsProblem(
  { turns, spans }: PartRewards,
  response: string | readonly { content?: TurnContent | null | undefined }[],
): string | null {
  const lengths = new Map<number, number>()
  const count = typeof response === 'string' ? 1 : response.length
  for (const { message } of [...turns, ...spans]) {
    if (message >= count) {
      return `refer to message ${message}, but the response has only ${count === 1 ? 'message 0' : `messages 0 to ${count - 1}`}`
    }
  }
  for (const { message, end } of spans) {
    let length = lengths.get(message)
    if (length === undefined) {
      length = codePoints(messageText(response, message) ?? '')
      lengths.set(message, length)
    }
    if (end > length) {
      return `have a span that ends at ${end} in message ${message}, which has ${length} code points`
    }
  }
  return null
}

function codePoints(text: string): number {
  let n = 0
  for (const _ of text) n++
  return n
}

/** Reads rewards from user code; null: they are malformed. Uses no schema library, because function processes load it. */
export function readPartRewards(given: unknown): PartRewards | null {
  if (typeof given !== 'object' || given === null || Array.isArray(given)) return null
  const { turns = [], spans = [], ...others } = given as Record<string, unknown>
  if (Object.keys(others).length > 0 || !Array.isArray(turns) || !Array.isArray(spans)) return null
  const isTurn = hasNumbers(['message', 'score'])
  const isSpan = hasNumbers(['message', 'start', 'end', 'score'])
  if (!turns.every(isTurn) || !spans.every(isSpan)) return null
  return { turns, spans } as PartRewards
}

function hasNumbers(fields: readonly string[]): (value: unknown) => boolean {
  return (value) => {
    if (typeof value !== 'object' || value === null) return false
    const given = value as Record<string, unknown>
    if (Object.keys(given).length !== fields.length) return false
    return fields.every((name) => {
      const number = given[name]
      if (name === 'score') return Number.isFinite(number)
      return Number.isSafeInteger(number) && (number as number) >= 0
    })
  }
}

/** The weighted sum of turn and span rewards over the components of a composite reward. */
export function combinedRewards(
  given: readonly { weight: number; rewards: PartRewards }[],
): PartRewards {
  const turns = new Map<number, PartRewards['turns'][number]>()
  const spans = new Map<string, PartRewards['spans'][number]>()
  for (const { weight, rewards } of given) {
    for (const { message, score } of rewards.turns) {
      turns.set(message, { message, score: (turns.get(message)?.score ?? 0) + weight * score })
    }
    for (const { message, start, end, score } of rewards.spans) {
      const key = `${message}/${start}/${end}`
      const sum = (spans.get(key)?.score ?? 0) + weight * score
      spans.set(key, { message, start, end, score: sum })
    }
  }
  return { turns: [...turns.values()], spans: [...spans.values()] }
}
