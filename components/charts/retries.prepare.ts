import { linearTicks } from './distribution.prepare.ts'

/** One minute, with a column a cause. A minute nobody reported is a gap: no columns at all. */
export interface RetryMinute {
  atMs: number
  total: number | null
  [reason: string]: number | null
}

/** Retries a minute by cause, ready to draw. */
export interface RetryChartData {
  minutes: RetryMinute[]
  /** Causes that happened, the most frequent first. */
  reasons: { reason: string; count: number }[]
  total: number
  ticks: { at: number; label: string }[]
}

const MINUTE_MS = 60_000

/** Prepares the last hour: minutes in order, missing ones put back in as gaps. */
export function prepareRetries(
  rows: readonly { minute: string; byReason: Record<string, number> }[],
): RetryChartData {
  const counts = new Map<string, number>()
  const byTime = new Map<number, Record<string, number>>()
  for (const row of rows) {
    byTime.set(Date.parse(row.minute), row.byReason)
    for (const [reason, count] of Object.entries(row.byReason)) {
      counts.set(reason, (counts.get(reason) ?? 0) + count)
    }
  }
  const times = [...byTime.keys()].sort((a, b) => a - b)
  const first = times[0]
  const last = times.at(-1)
  const minutes: RetryMinute[] = []
  let most = 0
  if (first !== undefined && last !== undefined) {
    for (let atMs = first; atMs <= last; atMs += MINUTE_MS) {
      const byReason = byTime.get(atMs)
      const total = byReason ? Object.values(byReason).reduce((sum, n) => sum + n, 0) : null
      most = Math.max(most, total ?? 0)
      minutes.push({ ...byReason, atMs, total })
    }
  }
  const reasons = [...counts]
    .filter(([, count]) => count > 0)
    .map(([reason, count]) => ({ reason, count }))
    .sort((a, b) => b.count - a.count || a.reason.localeCompare(b.reason))
  return {
    minutes,
    reasons,
    total: reasons.reduce((sum, { count }) => sum + count, 0),
    ticks: linearTicks(most),
  }
}
