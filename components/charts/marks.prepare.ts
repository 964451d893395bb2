import type { RunMarkDto } from '../../server/contract/marks.ts'
import { formatCount } from '../format/numbers.ts'

/** The marks of one step, drawn as one line. */
export interface MarkLine {
  step: number
  marks: RunMarkDto[]
  /** The label next to the line; null: without labels, or no room for one. */
  text: string | null
  /** The side with more room for the label. */
  side: 'left' | 'right'
}

/** The share of the width that a label takes; with a closer neighbor only the icon is drawn. */
const LABEL_WIDTH = 0.16
const LABEL_CHARS = 26

/** Lays out the marks of a chart over these steps; marks outside its range are not drawn. */
export function prepareMarks(
  marks: readonly RunMarkDto[],
  steps: readonly number[],
  labels: boolean,
): MarkLine[] {
  const first = steps.reduce((a, b) => Math.min(a, b), Number.POSITIVE_INFINITY)
  const last = steps.reduce((a, b) => Math.max(a, b), Number.NEGATIVE_INFINITY)
  const span = last - first || 1
  const shown = [...Map.groupBy(marks, ({ step }) => step)]
    .filter(([step]) => step >= first && step <= last)
    .sort(([a], [b]) => a - b)
  return shown.map(([step, here], at) => {
    const side = (step - first) / span > 1 - LABEL_WIDTH ? 'left' : 'right'
    const [before, after] = [shown[at - 1]?.[0], shown[at + 1]?.[0]]
    const room =
      side === 'right'
        ? (after === undefined ? last + span : after) - step
        : step - (before ?? first - span)
    const text = here.map(({ label }) => label).join(', ')
    return {
      ...{ step, marks: here, side },
      text: labels && room / span >= LABEL_WIDTH ? shorten(text) : null,
    }
  })
}

/** Adds the marks to the table view of a chart over steps. */
export function withMarks(
  table: { head: string[]; rows: (string | number)[][] },
  marks: readonly RunMarkDto[],
): { head: string[]; rows: (string | number)[][] } {
  if (table.head[0] !== 'Step' || marks.length === 0) return table
  const byStep = Map.groupBy(marks, ({ step }) => formatCount(step))
  if (!table.rows.some(([step]) => byStep.has(String(step)))) return table
  return {
    head: [...table.head, 'Marks'],
    rows: table.rows.map((row) => {
      const here = byStep.get(String(row[0])) ?? []
      return [...row, here.map(({ label }) => label).join(', ')]
    }),
  }
}

function shorten(text: string): string {
  return text.length <= LABEL_CHARS ? text : `${text.slice(0, LABEL_CHARS - 1)}…`
}
