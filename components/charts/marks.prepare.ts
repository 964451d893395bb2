import type { RunMarkDto } from '../../server/contract/marks.ts'
import { type Placed, type StepRow, stepOfText } from './step-axis.prepare.ts'

export interface MarkLine {
  step: number
  x: number
  marks: RunMarkDto[]
  /** The label next to the line. Null if labels are off or there is no room for one. */
  text: string | null
  side: 'left' | 'right'
}

/** The share of the width that a label takes. If the next mark is closer, only the icon is drawn. */
const LABEL_WIDTH = 0.16
const LABEL_CHARS = 26

/**
 * Lays out the marks of a chart. Marks outside the range of its steps are not drawn.
 * @param xOf returns the position of a step, or null if it is unknown
 */
export function prepareMarks(
  marks: readonly RunMarkDto[],
  rows: readonly Placed<StepRow>[],
  labels: boolean,
  xOf: (step: number) => number | null = (step) => step,
): MarkLine[] {
  const least = (values: number[]) => values.reduce((a, b) => Math.min(a, b), Infinity)
  const most = (values: number[]) => values.reduce((a, b) => Math.max(a, b), -Infinity)
  const [first, last] = [least(rows.map(({ x }) => x)), most(rows.map(({ x }) => x))]
  const [firstStep, lastStep] = [
    least(rows.map(({ step }) => step)),
    most(rows.map(({ step, last = step }) => last)),
  ]
  const span = last - first || 1
  const shown = [...Map.groupBy(marks, ({ step }) => step)]
    .filter(([step]) => step >= firstStep && step <= lastStep)
    .flatMap(([step, here]) => {
      const x = xOf(step)
      // A mark's step can be later than the last point, because a point is drawn at the start of its bin. The mark is
      // then drawn at the last point.
      return x === null ? [] : [{ step, here, x: Math.min(last, Math.max(first, x)) }]
    })
    .sort((a, b) => a.x - b.x)
  return shown.map(({ step, here, x }, at): MarkLine => {
    const side = (x - first) / span > 1 - LABEL_WIDTH ? 'left' : 'right'
    const [before, after] = [shown[at - 1]?.x, shown[at + 1]?.x]
    const room = side === 'right' ? (after ?? last + span) - x : x - (before ?? first - span)
    const text = here.map(({ label }) => label).join(', ')
    return {
      ...{ step, x, marks: here, side },
      text: labels && room / span >= LABEL_WIDTH ? shorten(text) : null,
    }
  })
}

export function withMarks(
  table: { head: string[]; rows: (string | number)[][] },
  marks: readonly RunMarkDto[],
): { head: string[]; rows: (string | number)[][] } {
  if (table.head[0] !== 'Step' || marks.length === 0) return table
  const cells = table.rows.map(([text]) => {
    const { step, last = step } = stepOfText(String(text))
    return marks.filter((mark) => mark.step >= step && mark.step <= last)
  })
  if (cells.every((here) => here.length === 0)) return table
  return {
    head: [...table.head, 'Marks'],
    rows: table.rows.map((row, at) => [
      ...row,
      (cells[at] ?? []).map(({ label }) => label).join(', '),
    ]),
  }
}

function shorten(text: string): string {
  return text.length <= LABEL_CHARS ? text : `${text.slice(0, LABEL_CHARS - 1)}…`
}
