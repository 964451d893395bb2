/**
 * What `work` gives, or null where that takes longer than `ms`. It goes on then, and its failure is nobody's; one that comes
 * in time is thrown.
 */
export async function withTimeout<T>(work: Promise<T>, ms: number): Promise<T | null> {
  const late = Promise.withResolvers<null>()
  const timer = setTimeout(() => late.resolve(null), ms)
  try {
    // The race listens to the loser as well.
    return await Promise.race([work, late.promise])
  } finally {
    clearTimeout(timer)
  }
}
