import { setImmediate as turn } from 'node:timers/promises'

/** After so long the process gets a turn: a page's work must not hold up a trainer's call. */
const PORTION_MS = 10

/**
 * Runs work that pauses where it can be interrupted, and gives the process a turn whenever 10 ms have gone by.
 * @throws what the work throws, and the signal's reason once it is aborted
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
