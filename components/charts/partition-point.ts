/**
 * Returns the first of `count` indices for which `isBefore` is false, or `count` if there is none. `isBefore` must be
 * true up to some index and false from there on.
 */
export function partitionPoint(count: number, isBefore: (index: number) => boolean): number {
  let [low, high] = [0, count]
  while (low < high) {
    const middle = (low + high) >>> 1
    if (isBefore(middle)) low = middle + 1
    else high = middle
  }
  return low
}
