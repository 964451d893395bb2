import { codePoints } from '../../contract/part-rewards.ts'
import { MAX_TOKEN_SCORES, type TokenScores } from '../../contract/trainer.ts'
import { contentRanges } from '../../contract/turn-text.ts'
import type { RouterResult } from '../../router/router-types.ts'
import type { RewardSample } from '../managers/manager.ts'

/**
 * Returns the token scores of a reward model for a response, by message, with offsets in each message. Tokens outside
 * the contents of messages (tool calls, tags) are left out. Only the last {@link MAX_TOKEN_SCORES} are kept, because
 * the last token has the score of the response.
 */
export function tokenRewards(
  { tokenScores, tokenOffsets }: Pick<RouterResult & { ok: true }, 'tokenScores' | 'tokenOffsets'>,
  { solutionStr, messages }: Pick<RewardSample, 'solutionStr' | 'messages'>,
): TokenScores[] {
  if (tokenScores === undefined) return unplaced('the model returns one score per response')
  if (tokenOffsets === undefined) {
    return unplaced('the server does not return the texts of its tokens', tokenScores)
  }
  if ('problem' in tokenOffsets) return unplaced(tokenOffsets.problem, tokenScores)
  const { first, starts, ends } = tokenOffsets
  const ranges = contentsOf(solutionStr, messages)
  const tokens: { message: number; start: number; end: number; score: number }[] = []
  let next = 0
  for (const [i, start] of starts.entries()) {
    while (next < ranges.length && (ranges[next]?.end as number) <= start) next++
    const range = ranges[next]
    if (range === undefined) break
    const end = ends[i] as number
    // A token that is only part of a character has an empty range, and is kept even at the start of a message.
    if (end <= range.start && !(start === end && start === range.start)) continue
    tokens.push({
      message: range.message,
      start: Math.max(start, range.start) - range.start,
      end: Math.min(end, range.end) - range.start,
      score: tokenScores[first + i] as number,
    })
  }
  const dropped = Math.max(0, tokens.length - MAX_TOKEN_SCORES)
  return [...Map.groupBy(tokens.keys(), (i) => tokens[i]?.message as number)].map(([at, own]) => {
    const kept = own.filter((i) => i >= dropped).map((i) => tokens[i] as (typeof tokens)[number])
    return {
      component: null,
      message: at,
      starts: kept.map(({ start }) => start),
      ends: kept.map(({ end }) => end),
      scores: kept.map(({ score }) => score),
      omitted: own.length - kept.length,
      problem: null,
    }
  })
}

function unplaced(problem: string, scores: readonly number[] = []): TokenScores[] {
  const kept = scores.slice(-MAX_TOKEN_SCORES)
  const omitted = scores.length - kept.length
  const columns = { message: 0, starts: null, ends: null, scores: kept, omitted }
  // The problem may quote an answer of the server, which can contain any characters.
  return [{ component: null, ...columns, problem: problem.toWellFormed().replaceAll('\u0000', '') }]
}

/** Returns the range of each non-empty message within the response's text, in code points. */
function contentsOf(
  text: string,
  messages: RewardSample['messages'],
): { message: number; start: number; end: number }[] {
  let units = 0
  let points = 0
  const pointsTo = (end: number): number => {
    points += codePoints(text.slice(units, end))
    units = end
    return points
  }
  return contentRanges(messages ?? text)
    .map(({ start, end }, message) => ({ message, start: pointsTo(start), end: pointsTo(end) }))
    .filter(({ start, end }) => start < end)
}
