/**
 * The result of `work`, or null if it takes longer than `ms`. A late `work` continues, and its failure is ignored; a
 * failure in time is thrown.
 */
export async function withTimeout<T>(work: Promise<T>, ms: number): Promise<T | null> {
  const late = Promise.withResolvers<null>()
  const timer = setTimeout(() => late.resolve(null), ms)
  try {
    // `Promise.race` also handles the later rejection.
    return await Promise.race([work, late.promise])
  } finally {
    clearTimeout(timer)
  }
}
