/**
 * The result of `work`, or null if it takes longer than `ms`. A late `work` continues, and its failure is ignored; a
 * failure in time is thrown.
 */
export async function withTimeout<T>(work: Promise<T>, ms: number): Promise<T | null> {
  const late = Promise.withResolvers<null>()
  const cancelTimer = afterReads(ms, () => late.resolve(null))
  try {
    // `Promise.race` also handles the later rejection.
    return await Promise.race([work, late.promise])
  } finally {
    cancelTimer()
  }
}

/**
 * Calls back after `ms` milliseconds, once the event loop has also read what arrived until then. After a pause of the
 * process, timers run before sockets are read, and an answer that has arrived must not count as late. Returns a function
 * that cancels it.
 */
export function afterReads(ms: number, callback: () => void): () => void {
  let immediate: NodeJS.Immediate | undefined
  const timer = setTimeout(() => {
    immediate = setImmediate(callback)
  }, ms)
  return () => {
    clearTimeout(timer)
    clearImmediate(immediate)
  }
}
