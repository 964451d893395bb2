/** A service with so many places: gives each call, in the order asked for, the place that is free first. */
export class FreeSlots {
  readonly #places: number | null
  /** When each place is free, as a binary heap: the soonest first. */
  readonly #freeAt: number[] = []

  /** @param places null: one for every call */
  constructor(places: number | null) {
    this.#places = places
  }

  /** When a call that was asked for at `atMs` and takes `forMs` ends. */
  take(atMs: number, forMs: number): number {
    if (this.#places === null) return atMs + forMs
    if (this.#freeAt.length < this.#places) {
      const endMs = atMs + forMs
      this.#push(endMs)
      return endMs
    }
    const endMs = Math.max(atMs, this.#freeAt[0] as number) + forMs
    this.#replaceFirst(endMs)
    return endMs
  }

  #push(endMs: number): void {
    const heap = this.#freeAt
    let at = heap.length
    heap.push(endMs)
    while (at > 0) {
      const parent = (at - 1) >> 1
      if ((heap[parent] as number) <= endMs) break
      heap[at] = heap[parent] as number
      at = parent
    }
    heap[at] = endMs
  }

  #replaceFirst(endMs: number): void {
    const heap = this.#freeAt
    let at = 0
    for (;;) {
      let child = 2 * at + 1
      if (child >= heap.length) break
      if (child + 1 < heap.length && (heap[child + 1] as number) < (heap[child] as number)) child++
      if ((heap[child] as number) >= endMs) break
      heap[at] = heap[child] as number
      at = child
    }
    heap[at] = endMs
  }
}
