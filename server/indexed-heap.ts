/** The number of items that a search may still check. */
export interface Checks {
  left: number
}

/** Binary heap whose items know their index, so that any item can be removed or moved in O(log n). */
export class IndexedHeap<T> {
  readonly #items: T[] = []
  readonly #before: (a: T, b: T) => boolean
  readonly #placed: (item: T, index: number) => void

  /** `before` orders the items. `placed` receives an item's new index, or −1 after the item was removed. */
  constructor(before: (a: T, b: T) => boolean, placed: (item: T, index: number) => void) {
    this.#before = before
    this.#placed = placed
  }

  get size(): number {
    return this.#items.length
  }

  get first(): T | null {
    return this.#items[0] ?? null
  }

  push(item: T): void {
    this.#items.push(item)
    this.#up(this.#items.length - 1, item)
  }

  remove(index: number): void {
    const items = this.#items
    const gone = items[index] as T
    const last = items.pop() as T
    if (last !== gone) {
      items[index] = last
      this.moved(index)
    }
    this.#placed(gone, -1)
  }

  /** Moves the item at an index to its new position after its order has changed. */
  moved(index: number): void {
    const item = this.#items[index] as T
    if (index > 0 && this.#before(item, this.#items[(index - 1) >> 1] as T)) this.#up(index, item)
    else this.#down(index, item)
  }

  /**
   * Returns the first item, in heap order, that `accept` accepts. Checks at most `checks.left` items, and returns null
   * if none of them is accepted.
   */
  firstWhere(accept: (item: T) => boolean, checks: Checks): T | null {
    return this.#search(0, accept, checks, null)
  }

  #search(index: number, accept: (item: T) => boolean, checks: Checks, best: T | null): T | null {
    const item = this.#items[index]
    if (item === undefined || checks.left <= 0) return best
    if (best !== null && !this.#before(item, best)) return best
    checks.left--
    if (accept(item)) return item
    const left = this.#search(2 * index + 1, accept, checks, best)
    return this.#search(2 * index + 2, accept, checks, left)
  }

  #up(from: number, item: T): void {
    const items = this.#items
    let index = from
    while (index > 0) {
      const parentIndex = (index - 1) >> 1
      const parent = items[parentIndex] as T
      if (!this.#before(item, parent)) break
      items[index] = parent
      this.#placed(parent, index)
      index = parentIndex
    }
    items[index] = item
    this.#placed(item, index)
  }

  #down(from: number, item: T): void {
    const items = this.#items
    const count = items.length
    let index = from
    for (let child = 2 * index + 1; child < count; child = 2 * index + 1) {
      if (child + 1 < count && this.#before(items[child + 1] as T, items[child] as T)) child++
      const lower = items[child] as T
      if (!this.#before(lower, item)) break
      items[index] = lower
      this.#placed(lower, index)
      index = child
    }
    items[index] = item
    this.#placed(item, index)
  }
}
