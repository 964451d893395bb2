import type { Operation, OperationResultEnvelope, TRPCLink } from '@trpc/client'
import { observable } from '@trpc/server/observable'
import type { AppRouter } from '../../../server/api/root.ts'
import { RewardOpsClientError } from './error.ts'
import { type Failure, failureOf } from './failure.ts'
import type { Reach } from './reach.ts'

/** A call without an answer after this time triggers a check of the service. */
const DOUBT_MS = 2_000
const FIRST_DELAY_MS = 100
const MAX_DELAY_MS = 5_000

export interface ResilienceOptions {
  url: string
  reach: Reach
  /** How long calls to a service that was never reached are retried, in ms. */
  connectMs: number
  /** How long calls to a service that was reached before are retried, in ms. */
  outageMs: number
  /** Called once per outage with a message. */
  onTrouble: (sentence: string) => void
}

type Answered = OperationResultEnvelope<unknown, RewardOpsClientError>

/**
 * Retries calls that the service asks to repeat, and idempotent calls whose connection broke. Abandons a call in
 * progress if the service hangs.
 */
export function resilientLink(options: ResilienceOptions): TRPCLink<AppRouter> {
  const outage = { reported: false }
  return () =>
    ({ op, next }) =>
      observable((observer) => {
        const ended = new AbortController()
        const signal = op.signal ? AbortSignal.any([op.signal, ended.signal]) : ended.signal
        const attempt = (until: AbortSignal) =>
          new Promise<Answered>((resolve, reject) => {
            next({ ...op, signal: AbortSignal.any([signal, until]) }).subscribe({
              next: (value) => resolve(value as Answered),
              error: reject,
            })
          })
        call(op, attempt, signal, options, outage).then(
          (answer) => {
            observer.next(answer as never)
            observer.complete()
          },
          (error) => observer.error(error),
        )
        return () => ended.abort()
      })
}

async function call(
  op: Operation,
  attempt: (until: AbortSignal) => Promise<Answered>,
  signal: AbortSignal,
  options: ResilienceOptions,
  outage: { reported: boolean },
): Promise<Answered> {
  checkNumbers(op.input)
  const { reach } = options
  const begunAt = performance.now()
  let everReached = reach.everReached
  let since: number | null = null
  for (let failures = 0; ; failures++) {
    let failure: Failure
    let sentAt: number | null = null
    try {
      if (!reach.reached) await reach.ask()
      sentAt = performance.now()
      const answer = await watched(attempt, options)
      outage.reported = false
      return answer
    } catch (thrown) {
      if (signal.aborted) throw thrown
      failure = failureOf(thrown, options.url)
      // The service may have executed the sent call even if the parallel check found the service unreachable.
      if (sentAt !== null && thrown instanceof RewardOpsClientError) failure.notDone = false
    }
    const { error, kind, notDone } = failure
    everReached ||= reach.everReached
    // If the service works, even if it is overloaded or refuses the call, the outage is over, and the next outage is
    // reported again.
    if (kind === 'away') reach.reached = false
    else outage.reported = false
    if (kind === 'refused' || !(notDone || isRepeatable(op))) throw error
    // `fetch` or a proxy may end a call that waits long for its answer. If a check reached the service in the meantime,
    // the failure is not an outage.
    const wasReachable =
      error.reason === 'unreachable' && sentAt !== null && reach.reachedAt > sentAt
    if (kind === 'later' || wasReachable) since = null
    if (kind !== 'later') since ??= everReached ? performance.now() : begunAt
    const waitMs =
      error.retryAfterMs ??
      Math.min(MAX_DELAY_MS, FIRST_DELAY_MS * 2 ** failures) * (0.75 + Math.random() / 2)
    if (since !== null) {
      const allowedMs = everReached ? options.outageMs : options.connectMs
      const leftMs = since + allowedMs - performance.now()
      if (waitMs > leftMs) throw error
      if (everReached && !outage.reported) {
        outage.reported = true
        options.onTrouble(
          `${error.message} Retrying for ${Math.round(Math.max(0, leftMs) / 1_000)} s.`,
        )
      }
    }
    await pause(waitMs, signal)
  }
}

/**
 * Throws for NaN and infinite numbers. JSON would turn such a score into null, and the service would then score a
 * sample that the trainer has already scored.
 */
function checkNumbers(input: unknown): void {
  const { samples, sample } = (input ?? {}) as { samples?: unknown; sample?: unknown }
  for (const one of Array.isArray(samples) ? samples : [sample]) {
    for (const field of ['score', 'responseLength'] as const) {
      const value: unknown = (one as Record<string, unknown> | null | undefined)?.[field]
      if (typeof value !== 'number' || Number.isFinite(value)) continue
      const uid = String((one as { uid?: unknown }).uid)
      throw new RewardOpsClientError(
        'invalid_input',
        `A sample of the group "${uid}" has the ${field} ${value}.`,
        { hint: 'Leave it out if it is unknown.' },
      )
    }
  }
}

/**
 * Runs an attempt. After every DOUBT_MS without an answer, the service is checked in parallel. If the service is
 * unreachable, the attempt ends.
 */
async function watched(
  attempt: (until: AbortSignal) => Promise<Answered>,
  { reach, url }: ResilienceOptions,
): Promise<Answered> {
  const over = new AbortController()
  let timer: ReturnType<typeof setTimeout> | undefined
  const given = new Promise<never>((_, giveUp) => {
    const doubt = () => {
      if (over.signal.aborted) return
      timer = setTimeout(() => {
        reach.ask().then(doubt, (error) => {
          // If the service refuses the check, the call goes on, because its own answer reports the refusal.
          if (failureOf(error, url).kind === 'away') giveUp(error)
          else doubt()
        })
      }, DOUBT_MS)
    }
    doubt()
  })
  try {
    return await Promise.race([attempt(over.signal), given])
  } finally {
    clearTimeout(timer)
    over.abort()
  }
}

/** Mutations that are safe to repeat without an idempotency key. */
export const IDEMPOTENT: ReadonlySet<string> = new Set([
  'batches.append',
  'batches.close',
  'runs.update',
  'batches.cancel',
  'servers.register',
  'servers.update',
  'servers.drain',
  'servers.resume',
  'servers.probe',
  'pools.update',
  'rewards.try',
  'rewards.importConfig',
])

function isRepeatable({ type, path, input }: Operation): boolean {
  if (type === 'query' || IDEMPOTENT.has(path)) return true
  return typeof (input as { idempotencyKey?: unknown } | null)?.idempotencyKey === 'string'
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const end = () => {
      clearTimeout(timer)
      reject(signal.reason)
    }
    const timer = setTimeout(() => {
      signal.removeEventListener('abort', end)
      resolve()
    }, ms)
    signal.addEventListener('abort', end, { once: true })
  })
}
