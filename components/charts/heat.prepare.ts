import type { RunHeatDto } from '../../server/wire/runs.ts'
import { formatScore } from '../format/numbers.ts'
import { pickTicks } from './step-axis.ts'

/** A cell: place and size as shares of the picture, and how full it is, 0 to 1. */
export interface HeatCell {
  x: number
  y: number
  width: number
  height: number
  fill: number
}

/** A step's spread of scores over the steps, ready to draw. */
export interface HeatData {
  cells: HeatCell[]
  /** Rows from the top (the greatest scores), as they are told. */
  rows: string[]
  steps: RunHeatDto['steps']
  /** Place of a label as a share of the height, from the top. */
  valueTicks: { at: number; label: string }[]
  stepTicks: { at: number; label: string }[]
  /** The greatest share there is. */
  most: number
  firstStep: number
  /** Steps from the first to the last, both included. */
  span: number
}

const MOST_LABELS = 7

/** Lays out the cells. A step's share is told by its shade, by the square root: a cell of 1 % is to be seen beside one of 60 %. */
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
  const told = (row: number) =>
    kind === 'values'
      ? formatScore(edges[row])
      : `${formatScore(edges[row])} to ${formatScore(edges[row + 1])}`
  const every = Math.max(1, Math.ceil(edges.length / MOST_LABELS))
  return {
    cells,
    rows: Array.from({ length: count }, (_, at) => told(count - 1 - at)),
    steps,
    valueTicks: edges.flatMap((edge, at) =>
      at % every !== 0
        ? []
        : [
            {
              // A score stands in the middle of its row, an edge at its edge.
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

/** What lies at a place of the picture (shares of width and height, from the top left); null: no step. */
export function heatAt(
  data: HeatData,
  x: number,
  y: number,
): { step: number; row: string; share: number } | null {
  const step = data.firstStep + Math.floor(x * data.span)
  const at = data.steps.find((one) => one.step === step)
  const fromTop = Math.floor(y * data.rows.length)
  const row = data.rows[fromTop]
  if (at === undefined || row === undefined) return null
  return { step, row, share: at.shares[data.rows.length - 1 - fromTop] as number }
}
