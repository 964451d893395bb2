/** How many items a search may still look at. */
export interface Looks {
  left: number
}

/** Binary heap whose items know their place in it, so that one may leave or move from anywhere in O(log n). */
export class IndexedHeap<T> {
  readonly #items: T[] = []
  readonly #before: (a: T, b: T) => boolean
  readonly #placed: (item: T, index: number) => void

  /** `before` orders the items; `placed` tells an item its index, −1 once it left. */
  constructor(before: (a: T, b: T) => boolean, placed: (item: T, index: number) => void) {
    this.#before = before
    this.#placed = placed
  }

  get size(): number {
    return this.#items.length
  }

  /** The item before all others, null when empty. */
  get first(): T | null {
    return this.#items[0] ?? null
  }

  push(item: T): void {
    this.#items.push(item)
    this.#up(this.#items.length - 1, item)
  }

  /** Takes out the item at that index. */
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

  /** Puts the item at that index where it belongs, after what it is ordered by has changed. */
  moved(index: number): void {
    const item = this.#items[index] as T
    if (index > 0 && this.#before(item, this.#items[(index - 1) >> 1] as T)) this.#up(index, item)
    else this.#down(index, item)
  }

  /** The first item in order that is accepted; null when there is none, or none among those it may look at. */
  firstWhere(accept: (item: T) => boolean, looks: Looks): T | null {
    return this.#search(0, accept, looks, null)
  }

  #search(index: number, accept: (item: T) => boolean, looks: Looks, best: T | null): T | null {
    const item = this.#items[index]
    if (item === undefined || looks.left <= 0) return best
    // What stands beneath an item comes after it: nothing there can be better than one already found.
    if (best !== null && !this.#before(item, best)) return best
    looks.left--
    if (accept(item)) return item
    const left = this.#search(2 * index + 1, accept, looks, best)
    return this.#search(2 * index + 2, accept, looks, left)
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
