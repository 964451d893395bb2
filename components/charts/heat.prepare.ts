import type { RunHeatDto } from '../../server/contract/runs.ts'
import { formatScore } from '../format/numbers.ts'
import { pickTicks, type Tick } from './ticks.ts'

/** A cell: position and size as shares of the chart, and its fill, 0 to 1. */
interface HeatCell {
  x: number
  y: number
  width: number
  height: number
  fill: number
}

/** The score distribution of each step, prepared for drawing. */
export interface HeatData {
  cells: HeatCell[]
  /** The scores of the rows, or the bounds of their bins; ascending. */
  edges: readonly number[]
  /** Row labels from the top (the highest scores). */
  rows: string[]
  steps: RunHeatDto['steps']
  /** The position of a label as a share of the height, from the top. */
  valueTicks: Tick[]
  stepTicks: Tick[]
  /** The largest share of any cell. */
  most: number
  firstStep: number
  /** Steps from first to last, both included. */
  span: number
}

const MAX_LABELS = 7

/**
 * Lays out the cells. The shade is the square root of the share, so that a cell of 1 % is visible next to one of 60 %.
 */
export function prepareHeat(heat: RunHeatDto): HeatData {
  const { steps, edges, kind } = heat
  const count = kind === 'values' ? edges.length : edges.length - 1
  const firstStep = steps[0]?.step ?? 0
  const span = (steps.at(-1)?.step ?? firstStep) - firstStep + 1
  const most = Math.max(...steps.map(({ shares }) => Math.max(...shares)))
  const cells: HeatCell[] = []
  for (const { step, shares } of steps) {
    for (const [row, share] of shares.entries()) {
      if (share === 0) continue
      cells.push({
        x: (step - firstStep) / span,
        y: 1 - (row + 1) / count,
        width: 1 / span,
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
              // A score is centered in its row; the edge of a bin is at the edge of its row.
              at: 1 - (kind === 'values' ? at + 0.5 : at) / count,
              label: formatScore(edge),
            },
          ],
    ),
    stepTicks: pickTicks(
      steps.map(({ step }) => step),
      6,
    ).map((step) => ({ at: (step - firstStep + 0.5) / span, label: step.toLocaleString('en-US') })),
    most,
    firstStep,
    span,
  }
}

/** A cell under the pointer, with the scores of its row, both bounds included. */
export interface HeatCellAt {
  step: number
  row: string
  share: number
  low: number
  high: number
}

/** The cell at a position (shares of width and height, from the top left); null: no step. */
export function heatAt(data: HeatData, x: number, y: number): HeatCellAt | null {
  const step = data.firstStep + Math.floor(x * data.span)
  const at = data.steps.find((one) => one.step === step)
  const fromTop = Math.floor(y * data.rows.length)
  const row = data.rows[fromTop]
  if (at === undefined || row === undefined) return null
  const fromBottom = data.rows.length - 1 - fromTop
  const [low, high] = [data.edges[fromBottom], data.edges[fromBottom + 1]]
  return {
    ...{ step, row, share: at.shares[fromBottom] as number },
    low: low as number,
    high: (data.edges.length > data.rows.length ? high : low) as number,
  }
}
