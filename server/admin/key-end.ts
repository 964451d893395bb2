import { RewardOpsError } from '../errors.ts'

const ANOTHER = 'Request a new key from an admin.'

/**
 * The callbacks for when a key is revoked or expires. Each signal has one listener for all callbacks, because adding a
 * listener scans the existing ones, which is too slow for 5,000 concurrent calls.
 */
const waiting = new WeakMap<AbortSignal, Set<(why: unknown) => void>>()

/** Aborts the running calls of a revoked or expired key with the message `why`. A repeated call changes nothing. */
export function endKey(end: AbortController, why: string, hint = ANOTHER): void {
  end.abort(new RewardOpsError('unauthorized', why, { hint }))
}

function onKeyEnd(ended: AbortSignal, callback: (why: unknown) => void): () => void {
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
  calls.add(callback)
  return () => calls.delete(callback)
}

/**
 * Runs `work` while the caller's key is valid. The signal of `work` aborts when the key becomes invalid or the caller
 * disconnects (`gone`). The result is then not awaited, so use this only for work that may be abandoned. If the caller
 * has disconnected already, `work` is not begun.
 * @throws RewardOpsError `unauthorized` when the key becomes invalid first; the reason of `gone` if it has aborted
 */
export async function whileKeyHolds<T>(
  ended: AbortSignal,
  gone: AbortSignal | undefined,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  ended.throwIfAborted()
  gone?.throwIfAborted()
  const stop = new AbortController()
  const over = Promise.withResolvers<never>()
  const onGone = () => stop.abort(gone?.reason)
  const forget = onKeyEnd(ended, (why) => {
    over.reject(why)
    stop.abort(why)
  })
  gone?.addEventListener('abort', onGone, { once: true })
  try {
    return await Promise.race([work(stop.signal), over.promise])
  } finally {
    forget()
    gone?.removeEventListener('abort', onGone)
  }
}
