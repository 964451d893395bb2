/**
 * The result of `work`, or null if it takes longer than `ms`. After a timeout, `work` continues and its failure is
 * ignored. A failure before the timeout is thrown.
 */
export async function withTimeout<T>(work: Promise<T>, ms: number): Promise<T | null> {
  const late = Promise.withResolvers<null>()
  const cancelTimer = afterReads(ms, () => late.resolve(null))
  try {
    // `Promise.race` also handles a rejection of `work` after the timeout.
    return await Promise.race([work, late.promise])
  } finally {
    cancelTimer()
  }
}

/** An event-loop turn that takes longer than this counts as a pause of the process, ms. */
const PAUSE_MS = 20
/** Maximum number of turns to wait in a process that is always busy. */
const MAX_TURNS = 5

/**
 * Calls `callback` once the event loop has read the data that has arrived. After a pause of the process, timers and
 * immediates may run before sockets are read, and an answer that has arrived must not count as late. Returns a function
 * that cancels the callback.
 */
export function onceRead(callback: () => void): () => void {
  let immediate: NodeJS.Immediate | undefined
  const wait = (turns: number, sinceMs: number) => {
    immediate = setImmediate(() => {
      const nowMs = performance.now()
      // The pause may have begun after the event loop read the sockets, so wait for one more turn.
      if (nowMs - sinceMs > PAUSE_MS && turns < MAX_TURNS) wait(turns + 1, nowMs)
      else callback()
    })
  }
  wait(1, performance.now())
  return () => clearImmediate(immediate)
}

/**
 * Calls `callback` after `ms` milliseconds, once the data that has arrived by then has been read. Returns a function
 * that cancels the callback.
 */
export function afterReads(ms: number, callback: () => void): () => void {
  let cancel: () => void
  const timer = setTimeout(() => {
    cancel = onceRead(callback)
  }, ms)
  cancel = () => clearTimeout(timer)
  return () => cancel()
}
