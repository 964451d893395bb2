import { setImmediate as turn } from 'node:timers/promises'

/** Time after which work yields to the event loop, so that a page does not delay a trainer's request. */
const PORTION_MS = 10

/**
 * Runs a generator that yields where it can be interrupted, and gives the event loop a turn every 10 ms.
 * @throws the errors of the work, and the signal's reason once it is aborted
 */
export async function inPortions<T>(work: Generator<void, T>, signal?: AbortSignal): Promise<T> {
  let until = performance.now() + PORTION_MS
  for (;;) {
    const step = work.next()
    if (step.done) return step.value
    if (performance.now() < until) continue
    await turn()
    signal?.throwIfAborted()
    until = performance.now() + PORTION_MS
  }
}
