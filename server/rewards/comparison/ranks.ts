/** Number of values processed between two yields. Processing this many takes well under a millisecond. */
const PORTION = 8_192

export function countBelow(sorted: Float64Array, value: number): number {
  let low = 0
  let high = sorted.length
  while (low < high) {
    const middle = (low + high) >>> 1
    if ((sorted[middle] as number) < value) low = middle + 1
    else high = middle
  }
  return low
}

export function countUpTo(sorted: Float64Array, value: number): number {
  let low = 0
  let high = sorted.length
  while (low < high) {
    const middle = (low + high) >>> 1
    if ((sorted[middle] as number) <= value) low = middle + 1
    else high = middle
  }
  return low
}

/** Returns a sorted copy. Sorting 131,072 values takes about 12 ms, without a yield. */
export function ascending(values: Float64Array): Float64Array {
  return Float64Array.from(values).sort()
}

/** Returns ranks from 1. Equal values share their average rank. `sorted` has the same values in ascending order. */
export function* averageRanks(
  values: Float64Array,
  sorted: Float64Array,
): Generator<void, Float64Array> {
  const ranks = new Float64Array(values.length)
  for (let at = 0; at < values.length; at++) {
    if (at % PORTION === PORTION - 1) yield
    const value = values[at] as number
    ranks[at] = (countBelow(sorted, value) + countUpTo(sorted, value) + 1) / 2
  }
  return ranks
}

/** Returns the positions of the keys, in descending order of the keys. Equal keys keep their order. */
export function* descendingOrder(keys: Float64Array): Generator<void, Int32Array> {
  const places = Int32Array.from(keys, (_, at) => at)
  const { sorted } = yield* mergeSorted(
    places,
    (a, b) => (keys[a] as number) >= (keys[b] as number),
  )
  return sorted
}

/**
 * Stable merge sort that yields periodically and overwrites `values`. `swapped` is the number of pairs that were out of
 * order.
 * @param inOrder whether `before` may stay before `after`
 */
export function* mergeSorted(
  values: Int32Array,
  inOrder: (before: number, after: number) => boolean,
): Generator<void, { sorted: Int32Array; swapped: number }> {
  const n = values.length
  let sorted = values
  let other: Int32Array = new Int32Array(n)
  let swapped = 0
  let moved = 0
  for (let width = 1; width < n; width *= 2) {
    for (let from = 0; from < n; from += 2 * width) {
      const middle = Math.min(from + width, n)
      const end = Math.min(from + 2 * width, n)
      let left = from
      let right = middle
      for (let to = from; to < end; to++) {
        const takesLeft =
          left < middle &&
          (right >= end || inOrder(sorted[left] as number, sorted[right] as number))
        if (!takesLeft) swapped += middle - left
        other[to] = sorted[takesLeft ? left++ : right++] as number
        if (++moved % PORTION === 0) yield
      }
    }
    ;[sorted, other] = [other, sorted]
  }
  return { sorted, swapped }
}
