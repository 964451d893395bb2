/** A service with a fixed number of places: each call, in the order requested, takes the place that is free first. */
export class FreeSlots {
  readonly #places: number | null
  /** When each place is free, as a binary heap with the earliest first. */
  readonly #freeAt: number[] = []

  /** @param places null: unlimited */
  constructor(places: number | null) {
    this.#places = places
  }

  /** End time of a call requested at `atMs` that takes `forMs`. */
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
