import { ascending, countBelow, mergeSorted } from './ranks.ts'

/** Largest group in which every pair is compared (2,016 pairs); larger groups are counted by sorting. */
const ALL_PAIRS = 64
const PORTION = 8_192

export interface PairCounts {
  /** All pairs: n (n − 1) / 2. */
  pairs: number
  concordant: number
  discordant: number
  /** Pairs to which the first reward gives equal scores, including those of `tiedBoth`. */
  tiedFirst: number
  tiedSecond: number
  tiedBoth: number
}

/**
 * Counts how two rewards order the pairs of the same members. The counts are exact. Above {@link ALL_PAIRS} members,
 * Knight's algorithm (1966) is used, in O(n log n).
 */
export function* pairCounts(
  first: Float64Array,
  second: Float64Array,
): Generator<void, PairCounts> {
  return first.length <= ALL_PAIRS ? allPairs(first, second) : yield* pairsBySorting(first, second)
}

/**
 * Returns Kendall's τ-b: (concordant − discordant) / √((pairs − tied by the first) (pairs − tied by the second)).
 * Returns null if one of the rewards gives all members the same score and so defines no order.
 */
export function tauB(counts: PairCounts): number | null {
  const first = counts.pairs - counts.tiedFirst
  const second = counts.pairs - counts.tiedSecond
  if (first === 0 || second === 0) return null
  return (counts.concordant - counts.discordant) / Math.sqrt(first * second)
}

function allPairs(first: Float64Array, second: Float64Array): PairCounts {
  const n = first.length
  const counts = { concordant: 0, discordant: 0, tiedFirst: 0, tiedSecond: 0, tiedBoth: 0 }
  for (let i = 0; i < n; i++) {
    for (let j = i + 1; j < n; j++) {
      const a = Math.sign((first[i] as number) - (first[j] as number))
      const b = Math.sign((second[i] as number) - (second[j] as number))
      if (a === 0) counts.tiedFirst++
      if (b === 0) counts.tiedSecond++
      if (a === 0 && b === 0) counts.tiedBoth++
      else if (a * b > 0) counts.concordant++
      else if (a * b < 0) counts.discordant++
    }
  }
  return { pairs: (n * (n - 1)) / 2, ...counts }
}

/** Exported for the test that compares it with `allPairs`. */
export function* pairsBySorting(
  first: Float64Array,
  second: Float64Array,
): Generator<void, PairCounts> {
  const n = first.length
  const sortedFirst = ascending(first)
  yield
  const sortedSecond = ascending(second)
  yield
  // Both ranks are packed into one number. Each is below 2²⁶, so the result has at most 52 bits and is exact.
  const keys = new Float64Array(n)
  for (let at = 0; at < n; at++) {
    keys[at] =
      countBelow(sortedFirst, first[at] as number) * 2 ** 26 +
      countBelow(sortedSecond, second[at] as number)
    if (at % PORTION === PORTION - 1) yield
  }
  keys.sort()
  yield
  const tiedFirst = tiesOf(sortedFirst)
  const tiedSecond = tiesOf(sortedSecond)
  const tiedBoth = tiesOf(keys)
  yield
  const places = Int32Array.from(keys, (key) => key % 2 ** 26)
  yield
  const { swapped: discordant } = yield* mergeSorted(places, (a, b) => a <= b)
  const pairs = (n * (n - 1)) / 2
  const concordant = pairs - tiedFirst - tiedSecond + tiedBoth - discordant
  return { pairs, concordant, discordant, tiedFirst, tiedSecond, tiedBoth }
}

/** Number of pairs of equal values; `sorted` is ascending. */
function tiesOf(sorted: Float64Array): number {
  let ties = 0
  let run = 0
  for (let at = 1; at < sorted.length; at++) {
    run = sorted[at] === sorted[at - 1] ? run + 1 : 0
    ties += run
  }
  return ties
}
