import type { FleetHistoryDto } from '../../server/contract/fleet-history.ts'
import { allOf, sumsOf } from '../charts/history.prepare.ts'
import { durationText, formatCount, formatRate, formatRatio } from '../format/numbers.ts'

interface GlanceFigure {
  label: string
  value: string
  detail: string
  /** The definition of the figure, if its label is not enough. */
  hint?: string
  readings: readonly (number | null)[]
}

export function prepareGlance(history: FleetHistoryDto): GlanceFigure[] | null {
  const { latency, intervals, intervalSeconds } = history
  const ended = allOf(intervals, history.throughput)
  const requests = allOf(intervals, history.requests)
  if (![...ended, ...requests].some((n) => n > 0)) return null
  const failed = sumsOf(intervals, Object.values(history.failures))
  const imbalance = Array.from({ length: intervals }, (_, at) => {
    const values = history.imbalance.series.flatMap(({ values }) => values[at] ?? [])
    return values.length === 0 ? null : Math.max(...values)
  })
  const mean = (
    label: string,
    readings: readonly (number | null)[],
    text: (value: number | null) => string,
    detail: string,
    hint?: string,
  ): GlanceFigure => ({
    ...{ label, value: text(meanOf(readings)), detail, readings },
    ...(hint !== undefined && { hint }),
  })
  const ofIntervals = `Mean of ${intervalSeconds} s intervals`
  const hintOf = (what: string) =>
    `${what} The p95 is computed for each interval of ${intervalSeconds} s, and the figure is the mean over the intervals.`
  const perSecond = (counts: readonly number[]) => counts.map((n) => n / intervalSeconds)
  return [
    mean('Throughput', perSecond(ended), formatRate, 'samples/s, mean'),
    mean('Requests', perSecond(requests), formatRate, 'requests/s, mean'),
    {
      ...{ label: 'Failed requests', value: formatCount(sumOf(failed)) },
      ...{ detail: 'In the last hour', readings: failed },
    },
    mean('Imbalance', imbalance, formatRatio, 'Request share ÷ capacity share'),
    mean(
      'Service time p95',
      latency.service.map(({ p95 }) => p95),
      durationText,
      ofIntervals,
      hintOf('The duration of a server call or of a rule.'),
    ),
    mean(
      'Queue time p95',
      latency.queue.map(({ p95 }) => p95),
      durationText,
      ofIntervals,
      hintOf('The time from the acceptance of a sample to its first dispatch.'),
    ),
  ]
}

function sumOf(values: readonly number[]): number {
  return values.reduce((a, b) => a + b, 0)
}

function meanOf(readings: readonly (number | null)[]): number | null {
  const known = readings.filter((value) => value !== null)
  return known.length === 0 ? null : sumOf(known) / known.length
}
