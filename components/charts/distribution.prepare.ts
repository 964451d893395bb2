import type { Distribution } from '../../server/contract/pages.ts'
import { formatPercent, formatScore, quantityText } from '../format/numbers.ts'

export interface DistributionRow {
  /** A value for bars, `from to to` for bins. */
  label: string
  from: number
  to: number
  count: number
  share: string
  /** The count, or its position on the logarithmic axis. */
  height: number
}

/** A distribution, prepared for drawing, with the ticks of its count axis. */
export interface DistributionChartData {
  kind: Distribution['kind']
  n: number
  rows: DistributionRow[]
  ticks: { at: number; label: string }[]
  /** Decimal places that distinguish the edges of a bin. */
  edgeDigits: number
}

/** On a logarithmic axis a count of 1 is one decade above the baseline, to distinguish it from 0. */
export function logHeight(count: number): number {
  return count === 0 ? 0 : 1 + Math.log10(count)
}

/** Prepares the reward distribution of a batch. */
export function prepareDistribution(
  distribution: Distribution,
  options: { log: boolean },
): DistributionChartData {
  const { kind, n, bins } = distribution
  const rows = bins.map(({ from, to, count }) => ({
    label: kind === 'bars' ? formatScore(from) : `${formatScore(from)} to ${formatScore(to)}`,
    from,
    to,
    count,
    share: quantityText(formatPercent(n === 0 ? null : count / n)),
    height: options.log ? logHeight(count) : count,
  }))
  const most = Math.max(0, ...bins.map((bin) => bin.count))
  const width = bins[0] === undefined ? 1 : bins[0].to - bins[0].from
  return {
    kind,
    n,
    rows,
    ticks: options.log ? logTicks(most) : linearTicks(most),
    edgeDigits: width > 0 ? Math.min(6, Math.max(0, Math.ceil(-Math.log10(width)))) : 3,
  }
}

function logTicks(most: number): { at: number; label: string }[] {
  const ticks = [{ at: 0, label: '0' }]
  for (let value = 1; ; value *= 10) {
    ticks.push({ at: logHeight(value), label: value.toLocaleString('en-US') })
    if (value >= most) return ticks
  }
}

/** Three to six round integer ticks from 0 to at least `most`. */
export function linearTicks(most: number): { at: number; label: string }[] {
  if (most <= 0) return [{ at: 0, label: '0' }]
  const rough = most / 4
  const magnitude = 10 ** Math.floor(Math.log10(rough))
  const step = Math.max(
    1,
    ([1, 2, 2.5, 5, 10].find((m) => m * magnitude >= rough) ?? 10) * magnitude,
  )
  const whole = Math.ceil(step)
  const ticks: { at: number; label: string }[] = []
  for (let at = 0; ; at += whole) {
    ticks.push({ at, label: at.toLocaleString('en-US') })
    if (at >= most) return ticks
  }
}
