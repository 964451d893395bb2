import { decimalSum } from '../../contract/decimal-sum.ts'

export type CombineVotes = 'mean' | 'median' | 'majority'

export type VotesCombined = { ok: true; value: number } | { ok: false; problem: string }

/**
 * Combines the votes that were read; `null` is a failed vote. More than half of all votes must have been read, because
 * a score from one vote of five would be noisier than the scores of other samples, and nothing would show this.
 * `majority` is the most frequent value; a draw has no majority.
 */
export function combineVotes(
  votes: readonly (number | null)[],
  combine: CombineVotes,
): VotesCombined {
  const read = votes.filter((vote) => vote !== null).sort((a, b) => a - b)
  if (read.length * 2 <= votes.length) {
    return { ok: false, problem: `${read.length} of ${votes.length} votes could be read` }
  }
  switch (combine) {
    case 'mean':
      return { ok: true, value: meanOf(read) }
    case 'median': {
      const half = read.length >> 1
      return { ok: true, value: meanOf(read.slice(read.length % 2 ? half : half - 1, half + 1)) }
    }
    case 'majority':
      return mostVoted(read)
  }
}

/** The mean of sorted values. If all values are equal, the mean is exactly that value, without a rounding error. */
function meanOf(values: readonly number[]): number {
  if (values.length > 0 && values[0] === values.at(-1)) return values[0] as number
  return decimalSum(values.map((value) => value / values.length))
}

function mostVoted(sorted: readonly number[]): VotesCombined {
  const counts = new Map<number, number>()
  for (const value of sorted) counts.set(value, (counts.get(value) ?? 0) + 1)
  const most = Math.max(...counts.values())
  const leading = [...counts].filter(([, count]) => count === most).map(([value]) => value)
  const [winner] = leading
  return leading.length === 1 && winner !== undefined
    ? { ok: true, value: winner }
    : { ok: false, problem: `no majority: ${leading.join(', ')} have ${most} votes each` }
}
