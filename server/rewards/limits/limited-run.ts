import type { LimitClock } from './clock.ts'
import type { GatePermit, GateWaits, RequestGate } from './request-gate.ts'

/** How long a call that was told to stop may hold its slot, ms: it may still be running at the other end. */
const STOP_WITHIN_MS = 5_000

/** What became of a limited call, and where its time went. */
export type LimitedOutcome<Value> = (
  | { ok: true; value: Value }
  | { ok: false; reason: 'timeout' | 'function_error' | 'cancelled'; detail: string }
) & {
  /** Waiting for its turn, by cause. */
  waits: GateWaits
  /** From when it went to its end, ms. */
  serviceMs: number
}

/** What a limited call is told, and what it may say of itself. */
export interface LimitedRunOptions<Value> {
  signal?: AbortSignal
  /** Default: the limits'. */
  timeoutMs?: number
  /** Requests that it is to the other side; default 1. */
  requests?: number
  /** What it is thought to use; default: the limits' estimate for each request. */
  tokens?: number
  /** What it did use, from its result; undefined: not known. */
  usedTokens?: (value: Value) => number | undefined
  usedRequests?: (value: Value) => number | undefined
}

/**
 * Makes one call within the limits of a gate. Upstream's `rate_limited` manager around its scorer, but for what a
 * failure is: there 0.0 with a word in the extra info, here a reason and no score. The time-out is the call's own, its
 * wait does not count. Never rejects.
 */
export async function runLimited<Value>(
  gate: RequestGate,
  clock: LimitClock,
  call: (signal: AbortSignal) => Value | Promise<Value>,
  options: LimitedRunOptions<Value> = {},
): Promise<LimitedOutcome<Value>> {
  const { signal, timeoutMs = gate.limits.timeoutMs, usedTokens, usedRequests } = options
  let permit: GatePermit
  try {
    permit = await gate.acquire({
      ...(options.tokens === undefined ? {} : { tokens: options.tokens }),
      ...(options.requests === undefined ? {} : { requests: options.requests }),
      ...(signal ? { signal } : {}),
    })
  } catch (error) {
    const waits = { slotMs: 0, rpmMs: 0, tpmMs: 0 }
    return signal?.aborted
      ? { ok: false, reason: 'cancelled', detail: 'cancelled before its turn', waits, serviceMs: 0 }
      : { ok: false, reason: 'function_error', detail: messageOf(error), waits, serviceMs: 0 }
  }
  const startedMs = clock.nowMs()
  const stop = new AbortController()
  let end: 'timeout' | 'cancelled' | null = null
  const ended = Promise.withResolvers<void>()
  const finish = (why: 'timeout' | 'cancelled') => {
    end ??= why
    stop.abort()
    ended.resolve()
  }
  const cancel = () => finish('cancelled')
  signal?.addEventListener('abort', cancel, { once: true })
  const callOff = clock.after(timeoutMs, () => finish('timeout'))
  // In a promise from the start: what a function throws at once is caught like what it rejects with.
  const running = Promise.resolve().then(() => call(stop.signal))
  const settled = running.then(
    (value) => ({ ok: true as const, value }),
    (error: unknown) => ({ ok: false as const, error }),
  )
  const first = await Promise.race([settled, ended.promise])
  callOff()
  signal?.removeEventListener('abort', cancel)
  const measured = { waits: permit.waits, serviceMs: clock.nowMs() - startedMs }
  if (first === undefined) {
    releaseWhenStopped(permit, clock, settled)
    const detail =
      end === 'timeout' ? `took longer than ${timeoutMs} ms` : 'cancelled while it was running'
    return { ok: false, reason: end ?? 'cancelled', detail, ...measured }
  }
  if (!first.ok) {
    permit.release()
    return { ok: false, reason: 'function_error', detail: messageOf(first.error), ...measured }
  }
  permit.release(usedTokens?.(first.value), usedRequests?.(first.value))
  return { ok: true, value: first.value, ...measured }
}

function releaseWhenStopped(
  permit: GatePermit,
  clock: LimitClock,
  settled: Promise<unknown>,
): void {
  const callOff = clock.after(STOP_WITHIN_MS, () => permit.release())
  void settled.then(() => {
    callOff()
    permit.release()
  })
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
