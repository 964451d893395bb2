/** Between two looks at a state that is waited for, ms. */
const LOOK_EVERY_MS = 25

/**
 * Looks at a state again and again until it is as wanted: null, undefined and false are not. Tests wait for what
 * happens, never for time; the deadline only ends a test that would wait for ever.
 * @throws when it is not as wanted after `withinMs`, with what was waited for and the last error, if there was one
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
