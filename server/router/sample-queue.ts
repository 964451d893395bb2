import type { RoutedSample } from './routed-sample.ts'

/** Doubly linked list of waiting samples: a sample that times out or is cancelled in its middle leaves in O(1). */
export class SampleQueue {
  #head: RoutedSample | null = null
  #tail: RoutedSample | null = null
  #size = 0

  /** How many samples wait. */
  get size(): number {
    return this.#size
  }

  /** The sample that waits longest, null when empty. */
  get first(): RoutedSample | null {
    return this.#head
  }

  /** Adds a sample at the end; it must be in no queue. */
  push(sample: RoutedSample): void {
    sample.queue = this
    sample.queuePrev = this.#tail
    if (this.#tail === null) this.#head = sample
    else this.#tail.queueNext = sample
    this.#tail = sample
    this.#size++
  }

  /** Takes a sample out; it must be in this queue. */
  remove(sample: RoutedSample): void {
    const { queueNext, queuePrev } = sample
    if (queuePrev === null) this.#head = queueNext
    else queuePrev.queueNext = queueNext
    if (queueNext === null) this.#tail = queuePrev
    else queueNext.queuePrev = queuePrev
    sample.queue = null
    sample.queueNext = null
    sample.queuePrev = null
    this.#size--
  }
}
