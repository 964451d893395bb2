const LOOK_EVERY_MS = 25

/**
 * Checks a condition repeatedly until its result is not null, undefined or false. Tests wait for events, not for
 * time. The deadline only ends a test that would wait forever.
 * @throws after `withinMs`, with the name of the condition and the last error, if any
 */
export async function waitFor<T>(
  what: string,
  look: () => Promise<T | null | undefined | false> | T | null | undefined | false,
  withinMs = 30_000,
): Promise<T> {
  const until = performance.now() + withinMs
  let last: unknown
  for (;;) {
    try {
      const state = await look()
      if (state !== null && state !== undefined && state !== false) return state
      last = undefined
    } catch (error) {
      last = error
    }
    if (performance.now() > until) {
      throw new Error(`${what}: not within ${withinMs} ms`, last ? { cause: last } : undefined)
    }
    await new Promise((resolve) => setTimeout(resolve, LOOK_EVERY_MS))
  }
}
