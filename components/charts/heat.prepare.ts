import type { RunHeatDto } from '../../server/contract/runs.ts'
import { formatScore, justBelow } from '../format/numbers.ts'
import { type Placed, placeSteps, type StepRow } from './step-axis.prepare.ts'
import { localTimeTicks, pickTicks, type Tick } from './ticks.ts'

/** A cell: position and size as shares of the chart, and its fill, 0 to 1. */
interface HeatCell {
  x: number
  y: number
  width: number
  height: number
  fill: number
}

export interface HeatData {
  cells: HeatCell[]
  /** The scores of the rows, or the bounds of their bins, in ascending order. */
  edges: readonly number[]
  /** Row labels from top to bottom, that is, from the highest scores to the lowest. */
  rows: string[]
  steps: RunHeatDto['steps']
  /** Positions are shares of the height, from the top. */
  valueTicks: Tick[]
  stepTicks: Tick[]
  /** The largest share of samples in any cell. */
  most: number
  /** The steps or bins from left to right. */
  columns: HeatColumn[]
  /** Converts a step or time of the axis to a share of the width. */
  placeOf(x: number): number
}

export interface HeatColumn extends StepRow {
  left: number
  right: number
  shares: readonly number[]
}

const MAX_LABELS = 7

/**
 * Lays out the cells. The shade is the square root of the share, so that a cell of 1 % is visible next to one of 60 %.
 */
export function prepareHeat(
  heat: RunHeatDto,
  {
    lastOf = (step) => step,
    timeOf = null,
  }: {
    lastOf?: (step: number) => number
    /** Only for a time axis: returns the time of a step, or null if it is unknown. */
    timeOf?: ((step: number) => number | null) | null
  } = {},
): HeatData {
  const { steps, edges, kind } = heat
  const count = kind === 'values' ? edges.length : edges.length - 1
  const rows = steps.map((at) => ({ ...at, last: lastOf(at.step) }))
  const placed = placeSteps(rows, timeOf === null ? 'step' : 'time', timeOf ?? (() => null))
  const ends = placed.map((at, i) => endOf(at, placed[i + 1]?.x, timeOf !== null))
  const usual = ends.map((end, i) => end - (placed[i]?.x ?? end)).toSorted((a, b) => a - b)[
    ends.length >> 1
  ] as number
  const first = placed[0]?.x ?? 0
  // On a time axis, a column extends to the next column, but is at most as wide as the median column, so that pauses
  // stay empty.
  const bounded = placed.map(({ x }, i) =>
    timeOf === null ? (ends[i] as number) : Math.min(ends[i] as number, x + (usual || 1)),
  )
  const span = (bounded.at(-1) ?? first + 1) - first
  const placeOf = (x: number) => (x - first) / span
  const columns = placed.map(
    ({ step, last, x, shares }, i): HeatColumn => ({
      ...{ step, last, shares, left: placeOf(x), right: placeOf(bounded[i] as number) },
    }),
  )
  const most = Math.max(0, ...steps.map(({ shares }) => Math.max(...shares)))
  const cells: HeatCell[] = []
  for (const { left, right, shares } of columns) {
    for (const [row, share] of shares.entries()) {
      if (share === 0) continue
      cells.push({
        x: left,
        y: 1 - (row + 1) / count,
        width: right - left,
        height: 1 / count,
        fill: Math.sqrt(share / most),
      })
    }
  }
  const labelOf = (row: number) =>
    kind === 'values'
      ? formatScore(edges[row])
      : `${formatScore(edges[row])} to ${formatScore(edges[row + 1])}`
  const every = Math.max(1, Math.ceil(edges.length / MAX_LABELS))
  return {
    cells,
    edges,
    rows: Array.from({ length: count }, (_, at) => labelOf(count - 1 - at)),
    steps,
    valueTicks: edges.flatMap((edge, at) =>
      at % every !== 0
        ? []
        : [
            {
              // The label of a score is centered in its row. The label of a bin edge is at the edge of the row.
              at: 1 - (kind === 'values' ? at + 0.5 : at) / count,
              label: formatScore(edge),
            },
          ],
    ),
    stepTicks:
      timeOf === null
        ? pickTicks(steps.map(stepNo), 6).map((step) => ({
            ...{ at: placeOf(step + 0.5), label: step.toLocaleString('en-US') },
          }))
        : localTimeTicks(first, placed.at(-1)?.x ?? first, 3)
            .map(({ at, label }) => ({ at: placeOf(at), label }))
            // Labels are centered on their positions, so a label at the right edge would be cut off.
            .filter(({ at }) => at < 0.95),
    ...{ most, columns, placeOf },
  }
}

const stepNo = ({ step }: { step: number }) => step

function endOf({ last, x }: Placed<StepRow>, next: number | undefined, isTime: boolean): number {
  return isTime ? (next ?? Number.POSITIVE_INFINITY) : (last ?? x) + 1
}

/** A cell under the pointer, with the range of scores of its row, both bounds included. */
export interface HeatCellAt {
  step: number
  /** The last step of a bin, or the step itself. */
  last: number
  row: string
  share: number
  low: number
  high: number
}

/** The cell at a position, given as shares of width and height from the top left. Null if no step is there. */
export function heatAt(data: HeatData, x: number, y: number): HeatCellAt | null {
  const at = data.columns.find(({ left, right }) => x >= left && x < right)
  const fromTop = Math.floor(y * data.rows.length)
  const row = data.rows[fromTop]
  if (at === undefined || row === undefined) return null
  const fromBottom = data.rows.length - 1 - fromTop
  const low = data.edges[fromBottom] as number
  const edge = data.edges.length > data.rows.length ? (data.edges[fromBottom + 1] as number) : low
  // A score on the edge of two bins belongs to the upper bin.
  const high = edge === low || fromTop === 0 ? edge : justBelow(edge)
  const share = at.shares[fromBottom] as number
  return { step: at.step, last: at.last ?? at.step, row, share, low, high }
}
