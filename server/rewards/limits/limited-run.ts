import type { LimitClock } from './clock.ts'
import type { GatePermit, GateWaits, RequestGate } from './request-gate.ts'

/** Time for which a cancelled call may keep its slot, ms, because it may still be running on the server. */
const STOP_WITHIN_MS = 5_000

export type LimitedOutcome<Value> = (
  | { ok: true; value: Value }
  | { ok: false; reason: 'timeout' | 'function_error' | 'cancelled'; detail: string }
) & {
  waits: GateWaits
  /** Time from the call's start to its end, ms. */
  serviceMs: number
}

export interface LimitedRunOptions<Value> {
  signal?: AbortSignal
  /** Time limit of the call. Default: the timeout of the gate's limits. */
  timeoutMs?: number
  /** Number of requests to the service; default 1. */
  requests?: number
  /** Estimated tokens; default: the limits' estimate for each request. */
  tokens?: number
  /** The tokens that the call used, from its result; undefined if unknown. */
  usedTokens?: (value: Value) => number | undefined
  /** The requests that the call made, from its result; undefined if unknown. */
  usedRequests?: (value: Value) => number | undefined
}

/**
 * Makes one call within the limits of a gate, as verl's `rate_limited` manager does around its scorer. A failure
 * has a reason and no score, where verl gives 0.0 and a note in the extra info. The timeout excludes the time
 * spent waiting. A call whose slot is recalled is cancelled and repeated with the next slot. Never rejects.
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
  let end: 'timeout' | 'cancelled' | 'recalled' | null = null
  const ended = Promise.withResolvers<void>()
  const finish = (why: 'timeout' | 'cancelled' | 'recalled') => {
    end ??= why
    stop.abort()
    ended.resolve()
  }
  const cancel = () => finish('cancelled')
  signal?.addEventListener('abort', cancel, { once: true })
  permit.recalled.addEventListener('abort', () => finish('recalled'), { once: true })
  const callOff = clock.after(timeoutMs, () => finish('timeout'))
  // Called inside a promise, so that synchronous exceptions are handled like rejections.
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
    if (end === 'recalled') {
      const again = await runLimited(gate, clock, call, options)
      return { ...again, waits: sumOf(permit.waits, again.waits) }
    }
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

function sumOf(a: GateWaits, b: GateWaits): GateWaits {
  return { slotMs: a.slotMs + b.slotMs, rpmMs: a.rpmMs + b.rpmMs, tpmMs: a.tpmMs + b.tpmMs }
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
