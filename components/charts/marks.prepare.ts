import type { RunMarkDto } from '../../server/wire/marks.ts'
import { formatCount } from '../format/numbers.ts'

/** Marks of one step as one line. */
export interface MarkLine {
  step: number
  marks: RunMarkDto[]
  /** Written beside the line; null: there is no room for it, its sign alone is drawn. */
  text: string | null
  /** Towards which side there is more room. */
  side: 'left' | 'right'
}

/** Share of the width that a label takes; a line nearer to the next one has its sign alone. */
const LABEL_WIDTH = 0.16
const LABEL_CHARS = 26

/** Lays out the marks of a chart over these steps; those beyond its ends are not drawn. */
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

/** The table twin of a chart over steps with what was marked, where a row's step has a mark. */
export function withMarks(
  table: { head: string[]; rows: (string | number)[][] },
  marks: readonly RunMarkDto[],
): { head: string[]; rows: (string | number)[][] } {
  if (table.head[0] !== 'Step' || marks.length === 0) return table
  const byStep = Map.groupBy(marks, ({ step }) => formatCount(step))
  if (!table.rows.some(([step]) => byStep.has(String(step)))) return table
  return {
    head: [...table.head, 'Marked'],
    rows: table.rows.map((row) => {
      const here = byStep.get(String(row[0])) ?? []
      return [...row, here.map(({ label }) => label).join(', ')]
    }),
  }
}

function shorten(text: string): string {
  return text.length <= LABEL_CHARS ? text : `${text.slice(0, LABEL_CHARS - 1)}…`
}
