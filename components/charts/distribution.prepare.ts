import type { Distribution } from '../../server/contract/pages.ts'
import { formatScore, justBelow, percentText } from '../format/numbers.ts'
import { linearTicks, type Tick } from './ticks.ts'

export interface DistributionRow {
  /** The value of a bar, or the range of a bin: `0.1 to 0.2`. */
  label: string
  /** The label on the axis: the value, or the lower edge of the bin. */
  tick: string
  from: number
  to: number
  /** The largest score of the bar or bin. A score on the edge of two bins belongs to the upper bin. */
  most: number
  count: number
  share: string
  /** The count, or its position on the logarithmic axis. */
  height: number
}

export interface DistributionChartData {
  kind: Distribution['kind']
  n: number
  rows: DistributionRow[]
  ticks: Tick[]
}

/**
 * The height of a count on a logarithmic axis. A count of 1 is one decade above the baseline, to distinguish it from 0.
 */
export function logHeight(count: number): number {
  return count === 0 ? 0 : 1 + Math.log10(count)
}

export function prepareDistribution(
  distribution: Distribution,
  options: { log: boolean },
): DistributionChartData {
  const { kind, n, bins } = distribution
  const width = bins[0] === undefined ? 1 : bins[0].to - bins[0].from
  // Bin edges have enough decimal places to be distinguishable.
  const digits = width > 0 ? Math.min(6, Math.max(0, Math.ceil(-Math.log10(width)))) : 3
  const rows = bins.map(({ from, to, count }, i) => ({
    label: kind === 'bars' ? formatScore(from) : `${formatScore(from)} to ${formatScore(to)}`,
    tick: kind === 'bars' ? formatScore(from) : from.toFixed(digits).replace('-', '−'),
    from,
    to,
    most: kind === 'bars' || i === bins.length - 1 ? to : justBelow(to),
    count,
    share: percentText(n === 0 ? null : count / n),
    height: options.log ? logHeight(count) : count,
  }))
  const most = Math.max(0, ...bins.map((bin) => bin.count))
  return {
    kind,
    n,
    rows,
    ticks: options.log ? logTicks(most) : linearTicks(most),
  }
}

function logTicks(most: number): Tick[] {
  const ticks = [{ at: 0, label: '0' }]
  for (let value = 1; ; value *= 10) {
    ticks.push({ at: logHeight(value), label: value.toLocaleString('en-US') })
    if (value >= most) return ticks
  }
}
