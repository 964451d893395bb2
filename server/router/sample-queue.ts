import type { Row } from './routed-sample.ts'

/** Doubly linked list of waiting rows: a row that times out or is cancelled in its middle leaves in O(1). */
export class RowQueue {
  #head: Row | null = null
  #tail: Row | null = null
  #size = 0

  /** How many rows wait. */
  get size(): number {
    return this.#size
  }

  /** The row that waits longest, null when empty. */
  get first(): Row | null {
    return this.#head
  }

  /** Adds a row at the end; it must be in no queue. */
  push(row: Row): void {
    row.queue = this
    row.queuePrev = this.#tail
    if (this.#tail === null) this.#head = row
    else this.#tail.queueNext = row
    this.#tail = row
    this.#size++
  }

  /** Takes a row out; it must be in this queue. */
  remove(row: Row): void {
    const { queueNext, queuePrev } = row
    if (queuePrev === null) this.#head = queueNext
    else queuePrev.queueNext = queueNext
    if (queueNext === null) this.#tail = queuePrev
    else queueNext.queuePrev = queuePrev
    row.queue = null
    row.queueNext = null
    row.queuePrev = null
    this.#size--
  }
}
