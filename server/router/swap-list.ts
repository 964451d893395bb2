/**
 * An unordered collection whose items know their index. It is not a Set: when thousands of samples a second pass through
 * a Set, V8 leaves an outgrown table behind each time it grows, and that table's samples with it. Once one of them is in
 * the old generation, all later ones follow. Measured over 160,000 calls, 160 to 260 MB were kept until a full
 * collection, against 35 MB.
 */
export class SwapList<T> {
  readonly #items: T[] = []
  readonly #indexOf: (item: T) => number
  readonly #setIndex: (item: T, index: number) => void

  /** An item that is in no list has index −1. */
  constructor(indexOf: (item: T) => number, setIndex: (item: T, index: number) => void) {
    this.#indexOf = indexOf
    this.#setIndex = setIndex
  }

  get size(): number {
    return this.#items.length
  }

  /** Adds an item that is not in the list. */
  add(item: T): void {
    this.#setIndex(item, this.#items.push(item) - 1)
  }

  /** Removes an item; does nothing if it is not in the list. */
  delete(item: T): void {
    const index = this.#indexOf(item)
    if (index < 0) return
    const last = this.#items.pop() as T
    if (last !== item) {
      this.#items[index] = last
      this.#setIndex(last, index)
    }
    this.#setIndex(item, -1)
  }

  /** A copy of all items. */
  all(): T[] {
    return [...this.#items]
  }
}
