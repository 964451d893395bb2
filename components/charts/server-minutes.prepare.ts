import type { ServerMinuteDto } from '../../server/contract/server-detail.ts'
import { durationTicks, linearTicks, minutesOfHour, minuteTicks, type Tick } from './ticks.ts'

/** Request outcomes, in stacking order. `failed`: no response, or a server error other than 503. */
export const REQUEST_OUTCOMES = ['answered', 'failed', 'busy', 'refused', 'corrupt'] as const
export type RequestOutcome = (typeof REQUEST_OUTCOMES)[number]

/** One minute of the requests of a server. In a minute without a score, latencies are null and drawn as a gap. */
export interface CallMinute extends Record<RequestOutcome, number> {
  at: number
  requests: number
  errors: number
  retries: number
  hedges: number
  p50Ms: number | null
  p99Ms: number | null
  /** Whether this is the current minute. It is drawn paler, because its bar still grows. */
  isRunning: boolean
}

export interface ServerMinutesData {
  /** 61 minutes, oldest first: an hour and the current minute. */
  minutes: CallMinute[]
  totals: Record<RequestOutcome | 'requests' | 'errors' | 'retries' | 'hedges', number>
  /** Number of minutes with a latency. */
  timed: number
  /** Ticks every ten minutes, shared by the latency chart and the request chart. */
  timeTicks: Tick[]
  countTicks: Tick[]
  latencyTicks: Tick[]
  /** The last minute with a request before this hour; null if there is none. */
  lastCallMs: number | null
}

/**
 * Prepares the last hour up to `nowMs`. The service lists only minutes with requests. In other minutes, counts are zero
 * and latencies are gaps. `errors` counts all failures; those that are not busy, refused or invalid count as `failed`.
 * A request may begin in one minute and end in another, so the answered count is clamped at zero.
 */
export function prepareServerMinutes(
  rows: readonly ServerMinuteDto[],
  nowMs: number,
): ServerMinutesData {
  const byMinute = new Map(rows.map((row) => [Date.parse(row.minute), row]))
  const times = minutesOfHour([...byMinute.keys()], nowMs)
  const minutes = times.map(
    (at): CallMinute => ({ ...countsOf(byMinute.get(at)), at, isRunning: at === times.at(-1) }),
  )
  const sum = (key: RequestOutcome | 'requests' | 'errors' | 'retries' | 'hedges') =>
    minutes.reduce((n, minute) => n + minute[key], 0)
  const latencies = minutes.flatMap(({ p99Ms, p50Ms }) => [p50Ms ?? 0, p99Ms ?? 0])
  const before = rows.filter((row) => Date.parse(row.minute) < (times[0] ?? 0)).at(-1)
  return {
    minutes,
    totals: {
      requests: sum('requests'),
      errors: sum('errors'),
      retries: sum('retries'),
      hedges: sum('hedges'),
      answered: sum('answered'),
      failed: sum('failed'),
      busy: sum('busy'),
      refused: sum('refused'),
      corrupt: sum('corrupt'),
    },
    timed: minutes.filter((minute) => minute.p50Ms !== null).length,
    timeTicks: minuteTicks(times),
    countTicks: linearTicks(
      Math.max(
        ...minutes.map((minute) =>
          Math.max(
            REQUEST_OUTCOMES.reduce((n, end) => n + minute[end], 0),
            minute.retries,
            minute.hedges,
          ),
        ),
      ),
    ),
    latencyTicks: durationTicks(Math.max(...latencies)),
    lastCallMs: before ? Date.parse(before.minute) : null,
  }
}

function countsOf(row: ServerMinuteDto | undefined): Omit<CallMinute, 'at' | 'isRunning'> {
  if (row === undefined) {
    const none = { answered: 0, failed: 0, busy: 0, refused: 0, corrupt: 0 }
    return { ...none, requests: 0, errors: 0, retries: 0, hedges: 0, p50Ms: null, p99Ms: null }
  }
  const { requests, errors, retries, hedges, busy, client, corrupt, p50Ms, p99Ms } = row
  return {
    answered: Math.max(0, requests - errors),
    failed: Math.max(0, errors - busy - client - corrupt),
    busy,
    refused: client,
    corrupt,
    requests,
    errors,
    retries,
    hedges,
    p50Ms,
    p99Ms,
  }
}
