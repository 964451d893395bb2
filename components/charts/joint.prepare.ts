import type { JointAxis, JointCellIndex, JointDistribution } from '../../server/contract/compare.ts'
import { formatScore } from '../format/numbers.ts'
import type { Tick } from './ticks.ts'

/** A cell: position and size as shares of the chart from the top left, its fill, and its contents. */
interface JointCell {
  x: number
  y: number
  width: number
  height: number
  fill: number
  samples: number
  index: JointCellIndex
  first: string
  second: string
}

export interface JointData {
  cells: JointCell[]
  columns: number
  rows: number
  n: number
  firstTicks: Tick[]
  secondTicks: Tick[]
  /** Whether both rewards have few distinct scores. The chart is then a table with the counts in its cells. */
  isTable: boolean
  /** The ends of the line of equal scores. Null unless both axes have bins and their ranges overlap. */
  equal: { x1: number; y1: number; x2: number; y2: number } | null
}

const MAX_LABELS = 6

export function prepareJoint(joint: JointDistribution): JointData {
  const columns = sizeOf(joint.first)
  const rows = sizeOf(joint.second)
  const most = Math.max(1, ...joint.cells.map(([, , samples]) => samples))
  return {
    columns,
    rows,
    n: joint.cells.reduce((sum, [, , samples]) => sum + samples, 0),
    cells: joint.cells.map(([i, j, samples]) => ({
      x: i / columns,
      y: 1 - (j + 1) / rows,
      width: 1 / columns,
      height: 1 / rows,
      // The square root keeps a cell with one sample visible next to one with a thousand.
      fill: Math.sqrt(samples / most),
      samples,
      index: [i, j],
      first: placeText(joint.first, i),
      second: placeText(joint.second, j),
    })),
    firstTicks: ticksOf(joint.first),
    secondTicks: ticksOf(joint.second).map(({ at, label }) => ({ at: 1 - at, label })),
    isTable: joint.first.kind === 'values' && joint.second.kind === 'values',
    equal: equalLine(joint),
  }
}

function sizeOf(axis: JointAxis): number {
  return axis.kind === 'values' ? axis.values.length : axis.edges.length - 1
}

export function placeText(axis: JointAxis, at: number): string {
  return axis.kind === 'values'
    ? formatScore(axis.values[at])
    : `${formatScore(axis.edges[at])} to ${formatScore(axis.edges[at + 1])}`
}

function ticksOf(axis: JointAxis): Tick[] {
  const marks = axis.kind === 'values' ? axis.values : axis.edges
  const every = axis.kind === 'values' ? 1 : Math.ceil(marks.length / MAX_LABELS)
  const size = sizeOf(axis)
  return marks.flatMap((mark, at) =>
    at % every === 0
      ? [{ at: (axis.kind === 'values' ? at + 0.5 : at) / size, label: formatScore(mark) }]
      : [],
  )
}

function equalLine({ first, second }: JointDistribution): JointData['equal'] {
  if (first.kind !== 'bins' || second.kind !== 'bins') return null
  const [x0, x1] = [first.edges[0] as number, first.edges.at(-1) as number]
  const [y0, y1] = [second.edges[0] as number, second.edges.at(-1) as number]
  const from = Math.max(x0, y0)
  const to = Math.min(x1, y1)
  if (from >= to) return null
  const x = (score: number) => (score - x0) / (x1 - x0)
  const y = (score: number) => 1 - (score - y0) / (y1 - y0)
  return { x1: x(from), y1: y(from), x2: x(to), y2: y(to) }
}

/** The cell at a point of the chart: x and y run from 0 at the top left to 1. Null if no sample has the scores there. */
export function jointAt(data: JointData, x: number, y: number): JointCell | null {
  return (
    data.cells.find(
      (cell) => x >= cell.x && x < cell.x + cell.width && y >= cell.y && y < cell.y + cell.height,
    ) ?? null
  )
}
