import type { RoutedSample } from './routed-sample.ts'

/** A doubly linked list of waiting samples, from which a sample that times out or is cancelled is removed in O(1). */
export class SampleQueue {
  #head: RoutedSample | null = null
  #tail: RoutedSample | null = null
  #size = 0

  get size(): number {
    return this.#size
  }

  get first(): RoutedSample | null {
    return this.#head
  }

  /** Appends a sample that is in no queue. */
  push(sample: RoutedSample): void {
    sample.queue = this
    sample.queuePrev = this.#tail
    if (this.#tail === null) this.#head = sample
    else this.#tail.queueNext = sample
    this.#tail = sample
    this.#size++
  }

  /** Removes a sample that is in this queue. */
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
