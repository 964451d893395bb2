import type { JointAxis, JointDistribution } from '../../contract/compare.ts'
import type { Distribution } from '../../contract/pages.ts'
import { countUpTo } from './ranks.ts'

export const MAX_VALUES = 12
const JOINT_BINS = 32
const DELTA_BINS = 40
const CDF_POINTS = 200
const PORTION = 16_384

export function distinctOf(sorted: Float64Array, most: number): number[] | null {
  const values: number[] = []
  for (let at = 0; at < sorted.length; at++) {
    const value = sorted[at] as number
    if (values.length > 0 && value === values.at(-1)) continue
    if (values.length === most) return null
    values.push(value)
  }
  return values
}

/**
 * Returns both cumulative distribution functions at the same values: at every distinct score if there are few,
 * otherwise at quantiles of each reward's scores. The functions are exact at these values.
 */
export function cdfOf(
  first: Float64Array,
  second: Float64Array,
): { values: number[]; first: number[]; second: number[] } {
  const values = [...new Set([...pointsOf(first), ...pointsOf(second)])].sort((a, b) => a - b)
  const shares = (sorted: Float64Array) =>
    values.map((value) => (sorted.length === 0 ? 0 : countUpTo(sorted, value) / sorted.length))
  return { values, first: shares(first), second: shares(second) }
}

function pointsOf(sorted: Float64Array): number[] {
  const half = CDF_POINTS / 2
  const few = distinctOf(sorted, half)
  if (few !== null) return few
  const last = sorted.length - 1
  return Array.from(
    { length: half },
    (_, at) => sorted[Math.round((at * last) / (half - 1))] as number,
  )
}

function axisOf(sorted: Float64Array): JointAxis | null {
  if (sorted.length === 0) return null
  const values = distinctOf(sorted, MAX_VALUES)
  if (values !== null) return { kind: 'values', values }
  const edges = binEdges(sorted[0] as number, sorted.at(-1) as number, JOINT_BINS)
  return edges === null ? null : { kind: 'bins', edges }
}

function binEdges(low: number, high: number, bins: number): number[] | null {
  const width = (high - low) / bins
  if (!Number.isFinite(width) || width <= 0) return null
  return Array.from({ length: bins + 1 }, (_, at) => (at === bins ? high : low + at * width))
}

export function placeIn(axis: JointAxis): (score: number) => number {
  if (axis.kind === 'values') {
    const places = new Map(axis.values.map((value, at) => [value, at]))
    return (score) => places.get(score) as number
  }
  return placeInBins(axis.edges)
}

/**
 * Returns the function that gives the bin of a score. A bin includes its lower edge; the last bin includes both edges.
 */
function placeInBins(edges: readonly number[]): (score: number) => number {
  const bins = edges.length - 1
  const low = edges[0] as number
  const width = ((edges[bins] as number) - low) / bins
  return (score) => Math.min(bins - 1, Math.max(0, Math.floor((score - low) / width)))
}

export function* jointOf(
  first: Float64Array,
  second: Float64Array,
  sortedFirst: Float64Array,
  sortedSecond: Float64Array,
): Generator<void, JointDistribution | null> {
  const x = axisOf(sortedFirst)
  const y = axisOf(sortedSecond)
  if (x === null || y === null) return null
  const columns = x.kind === 'values' ? x.values.length : x.edges.length - 1
  const rows = y.kind === 'values' ? y.values.length : y.edges.length - 1
  const counts = new Int32Array(columns * rows)
  const placeX = placeIn(x)
  const placeY = placeIn(y)
  for (let at = 0; at < first.length; at++) {
    if (at % PORTION === PORTION - 1) yield
    counts[placeX(first[at] as number) * rows + placeY(second[at] as number)]!++
  }
  const cells: JointDistribution['cells'] = []
  counts.forEach((samples, at) => {
    if (samples > 0) cells.push([Math.floor(at / rows), at % rows, samples])
  })
  return { first: x, second: y, cells }
}

export function distributionOf(sorted: Float64Array): Distribution {
  const n = sorted.length
  const few = distinctOf(sorted, MAX_VALUES)
  if (few !== null) {
    let below = 0
    const bins = few.map((value) => {
      const upTo = countUpTo(sorted, value)
      const count = upTo - below
      below = upTo
      return { from: value, to: value, count }
    })
    return { kind: 'bars', n, bins }
  }
  const edges = binEdges(sorted[0] as number, sorted[n - 1] as number, DELTA_BINS)
  if (edges === null) return { kind: 'histogram', n: 0, bins: [] }
  const place = placeInBins(edges)
  const bins = edges.slice(1).map((to, at) => ({ from: edges[at] as number, to, count: 0 }))
  for (const value of sorted) bins[place(value)]!.count++
  return { kind: 'histogram', n, bins }
}
