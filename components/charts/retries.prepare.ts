import { linearTicks, minutesOfHour, minuteTicks, type Tick } from './ticks.ts'

/** One minute, with a column per reason. */
interface RetryMinute {
  at: number
  isRunning: boolean
  total: number
  [reason: string]: number | boolean
}

/** Retries per minute by reason, prepared for drawing. */
interface RetryChartData {
  minutes: RetryMinute[]
  /** The reasons that occurred, the most frequent first. */
  reasons: { reason: string; count: number }[]
  total: number
  timeTicks: Tick[]
  countTicks: Tick[]
}

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
    byTime.set(Date.parse(row.minute), row.byReason)
    for (const [reason, count] of Object.entries(row.byReason)) {
      counts.set(reason, (counts.get(reason) ?? 0) + count)
    }
  }
  const times = minutesOfHour([...byTime.keys()], nowMs)
  const minutes = times.map((at): RetryMinute => {
    const byReason = byTime.get(at) ?? {}
    const total = Object.values(byReason).reduce((sum, n) => sum + n, 0)
    return { ...byReason, at, isRunning: at === times.at(-1), total }
  })
  const reasons = [...counts]
    .filter(([, count]) => count > 0)
    .map(([reason, count]) => ({ reason, count }))
    .sort((a, b) => b.count - a.count || a.reason.localeCompare(b.reason))
  return {
    minutes,
    reasons,
    total: reasons.reduce((sum, { count }) => sum + count, 0),
    timeTicks: minuteTicks(times),
    countTicks: linearTicks(Math.max(...minutes.map((minute) => minute.total))),
  }
}
