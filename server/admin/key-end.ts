import { RewardOpsError } from '../errors.ts'

const ANOTHER = 'Request a new key from an admin.'

/**
 * What waits for the end of a key, by its signal: one listener a key. Adding one to a signal looks at all that are there,
 * which is too much where 5,000 rewards wait side by side.
 */
const waiting = new WeakMap<AbortSignal, Set<(why: unknown) => void>>()

/** Ends a key: `why` is what those who came in by it are told. Again changes nothing. */
export function endKey(end: AbortController, why: string, hint = ANOTHER): void {
  end.abort(new RewardOpsError('unauthorized', why, { hint }))
}

/** Calls `told` when the key ends, with the refusal that says why; returns what takes the call back. */
function onKeyEnd(ended: AbortSignal, told: (why: unknown) => void): () => void {
  let all = waiting.get(ended)
  if (all === undefined) {
    const calls = new Set<(why: unknown) => void>()
    const end = () => {
      for (const call of calls) call(ended.reason)
    }
    ended.addEventListener('abort', end, { once: true })
    waiting.set(ended, calls)
    all = calls
  }
  const calls = all
  calls.add(told)
  return () => calls.delete(told)
}

/**
 * Does what takes a while for somebody with a key, for as long as the key is good. When it ends, `work` is told by the signal
 * it was given, as it is when the caller goes (`gone`), and nobody waits for it any more. For what is read or waited for:
 * a change that was begun is made, and whoever asked for it learns that.
 * Throws `unauthorized` when the key ends first.
 */
export async function whileKeyHolds<T>(
  ended: AbortSignal,
  gone: AbortSignal | undefined,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  ended.throwIfAborted()
  const stop = new AbortController()
  const over = Promise.withResolvers<never>()
  const onGone = () => stop.abort(gone?.reason)
  const forget = onKeyEnd(ended, (why) => {
    over.reject(why)
    stop.abort(why)
  })
  if (gone?.aborted) onGone()
  else gone?.addEventListener('abort', onGone, { once: true })
  try {
    return await Promise.race([work(stop.signal), over.promise])
  } finally {
    forget()
    gone?.removeEventListener('abort', onGone)
  }
}
