/**
 * The first of `count` indices for which `isBefore` is false; `count` if there is none. It is true for the indices up to
 * some point and false from there on.
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
