import type { ServerMinuteDto } from '../../server/contract/server-detail.ts'
import { durationText } from '../format/numbers.ts'
import { linearTicks } from './distribution.prepare.ts'

/** Request outcomes, in stacking order. `failed`: no response, or a 5xx. */
export const CALL_ENDS = ['answered', 'failed', 'busy', 'refused', 'corrupt'] as const
export type CallEnd = (typeof CALL_ENDS)[number]

/** One minute of a server's requests; latencies are null in a minute without a score, drawn as a gap. */
export interface CallMinute extends Record<CallEnd, number> {
  atMs: number
  requests: number
  errors: number
  retries: number
  hedges: number
  p50Ms: number | null
  p99Ms: number | null
  /** The current minute, drawn paler because its bar still grows. */
  running: boolean
}

/** The last hour of a server, prepared for drawing. */
export interface ServerMinutesData {
  /** 61: an hour and the current minute, oldest first. */
  minutes: CallMinute[]
  /** Over those minutes. */
  totals: Record<CallEnd | 'requests' | 'errors' | 'retries' | 'hedges', number>
  /** Minutes with a latency. */
  timed: number
  /** Full ten-minute ticks, shared by both charts. */
  timeTicks: number[]
  countTicks: { at: number; label: string }[]
  latencyTicks: { at: number; label: string }[]
  /** Before the hour: the last minute with a request; null without one. */
  lastCallMs: number | null
}

const MINUTE_MS = 60_000
const MINUTES = 61

/**
 * Prepares the last hour up to `nowMs`. The service lists only minutes with requests; in the others counts are zero
 * and latencies are gaps. `errors` holds failures of all kinds; those neither busy, refused nor invalid count as
 * `failed`. A request may end in a later minute than it began, so the answered count is clamped at zero.
 */
export function prepareServerMinutes(
  rows: readonly ServerMinuteDto[],
  nowMs: number,
): ServerMinutesData {
  const byMinute = new Map(rows.map((row) => [Math.floor(Date.parse(row.minute) / MINUTE_MS), row]))
  // The clock of the service may be ahead of the browser's; its newest minute is kept.
  const last = Math.max(Math.floor(nowMs / MINUTE_MS), ...byMinute.keys())
  const minutes = Array.from({ length: MINUTES }, (_, i): CallMinute => {
    const minute = last - (MINUTES - 1) + i
    return { ...countsOf(byMinute.get(minute)), atMs: minute * MINUTE_MS, running: minute === last }
  })
  const sum = (key: CallEnd | 'requests' | 'errors' | 'retries' | 'hedges') =>
    minutes.reduce((n, minute) => n + minute[key], 0)
  const times = minutes.flatMap(({ p99Ms, p50Ms }) => [p50Ms ?? 0, p99Ms ?? 0])
  const before = rows.filter((row) => Date.parse(row.minute) < (minutes[0]?.atMs ?? 0)).at(-1)
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
    timeTicks: minutes.map(({ atMs }) => atMs).filter((at) => new Date(at).getMinutes() % 10 === 0),
    countTicks: linearTicks(
      Math.max(
        ...minutes.map((minute) =>
          Math.max(
            CALL_ENDS.reduce((n, end) => n + minute[end], 0),
            minute.retries,
            minute.hedges,
          ),
        ),
      ),
    ),
    latencyTicks: durationTicks(Math.max(...times)),
    lastCallMs: before ? Date.parse(before.minute) : null,
  }
}

function countsOf(row: ServerMinuteDto | undefined): Omit<CallMinute, 'atMs' | 'running'> {
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

/** Three to six round durations from 0 to at least `mostMs`. */
export function durationTicks(mostMs: number): { at: number; label: string }[] {
  if (!(mostMs > 0)) return [{ at: 0, label: '0' }]
  const [unit] = [60_000, 1_000, 1].filter((each) => mostMs >= 2 * each || each === 1)
  const rough = mostMs / (unit as number) / 4
  const magnitude = 10 ** Math.floor(Math.log10(rough))
  const step =
    ([1, 2, 5, 10].find((m) => m * magnitude >= rough * 0.999) ?? 10) * magnitude * (unit as number)
  const ticks: { at: number; label: string }[] = []
  for (let i = 0; ; i++) {
    const at = Number((i * step).toPrecision(12))
    ticks.push({
      at,
      label: at === 0 ? '0' : durationText(at).replace(/\.0+(?=\D)|(\.\d*?)0+(?=\D)/, '$1'),
    })
    if (at >= mostMs) return ticks
  }
}
