import { linearTicks } from './distribution.prepare.ts'

/** One minute, with a column per cause. */
export interface RetryMinute {
  atMs: number
  total: number
  [reason: string]: number
}

/** Retries per minute by cause, prepared for drawing. */
export interface RetryChartData {
  minutes: RetryMinute[]
  /** The causes that occurred, the most frequent first. */
  reasons: { reason: string; count: number }[]
  total: number
  ticks: { at: number; label: string }[]
}

const MINUTE_MS = 60_000
/** Minutes on the axis: an hour and the current minute. */
const MINUTES = 61

/**
 * Prepares the last hour up to `nowMs`. The service lists only minutes with retries; the others are filled in as
 * zeros.
 */
export function prepareRetries(
  rows: readonly { minute: string; byReason: Record<string, number> }[],
  nowMs: number,
): RetryChartData {
  const counts = new Map<string, number>()
  const byTime = new Map<number, Record<string, number>>()
  for (const row of rows) {
    byTime.set(Math.floor(Date.parse(row.minute) / MINUTE_MS), row.byReason)
    for (const [reason, count] of Object.entries(row.byReason)) {
      counts.set(reason, (counts.get(reason) ?? 0) + count)
    }
  }
  // The clock of the service may be ahead of the browser's; its newest minute is kept.
  const last = Math.max(Math.floor(nowMs / MINUTE_MS), ...byTime.keys())
  const minutes = Array.from({ length: MINUTES }, (_, i): RetryMinute => {
    const minute = last - (MINUTES - 1) + i
    const byReason = byTime.get(minute) ?? {}
    const total = Object.values(byReason).reduce((sum, n) => sum + n, 0)
    return { ...byReason, atMs: minute * MINUTE_MS, total }
  })
  const reasons = [...counts]
    .filter(([, count]) => count > 0)
    .map(([reason, count]) => ({ reason, count }))
    .sort((a, b) => b.count - a.count || a.reason.localeCompare(b.reason))
  return {
    minutes,
    reasons,
    total: reasons.reduce((sum, { count }) => sum + count, 0),
    ticks: linearTicks(Math.max(...minutes.map((minute) => minute.total))),
  }
}
