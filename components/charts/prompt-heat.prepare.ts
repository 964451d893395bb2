import type { PromptHeatDto } from '../../server/contract/prompts.ts'
import { pickTicks, type Tick } from './ticks.ts'

/**
 * A visit (a group of the prompt) as a cell. `x`, `right` and `until` are shares of the chart's width. `level` is the
 * visit's rate on the color scale, 0 to 1.
 */
export interface PromptHeatCell {
  row: number
  /** The left end of the visit's step. */
  x: number
  /** The right end of the visit's step. */
  right: number
  /** The start of the next visit. Until then, the rate of this visit is the last known rate. */
  until: number
  level: number
}

/** Prompts over steps, prepared for drawing. The easiest prompt is on top. */
export interface PromptHeatData {
  rows: PromptHeatDto['rows']
  cells: PromptHeatCell[]
  firstStep: number
  /** Number of steps from first to last, both included. */
  span: number
  stepTicks: Tick[]
  /** The ends of the scale: 0 and 1 for pass rates, otherwise the 5th and 95th percentile of all means. */
  low: number
  high: number
}

export function preparePromptHeat({
  rows,
  passRates,
}: Pick<PromptHeatDto, 'rows' | 'passRates'>): PromptHeatData {
  const all = [...new Set(rows.flatMap(({ steps }) => steps))].sort((a, b) => a - b)
  const firstStep = all[0] ?? 0
  const span = (all.at(-1) ?? firstStep) - firstStep + 1
  const [low, high] = passRates ? [0, 1] : scaleOf(rows.flatMap(({ rates }) => rates))
  const cells = rows.flatMap(({ steps, rates }, row) =>
    steps.map((step, at): PromptHeatCell => {
      const next = steps[at + 1] ?? firstStep + span
      return {
        row,
        x: (step - firstStep) / span,
        right: (step + 1 - firstStep) / span,
        until: (Math.max(next, step + 1) - firstStep) / span,
        level: Math.min(1, Math.max(0, ((rates[at] as number) - low) / (high - low))),
      }
    }),
  )
  return {
    ...{ rows, cells, firstStep, span, low, high },
    stepTicks: pickTicks(all, 8).map((step) => ({
      at: (step - firstStep + 0.5) / span,
      label: step.toLocaleString('en-US'),
    })),
  }
}

/**
 * The ends of the scale: the 5th and 95th percentile, so that a few extreme scores do not take up most of the scale.
 */
function scaleOf(values: readonly number[]): [low: number, high: number] {
  const sorted = values.toSorted((a, b) => a - b)
  const at = (share: number) => sorted[Math.round(share * (sorted.length - 1))] ?? 0
  const [low, high] = [at(0.05), at(0.95)]
  return high > low ? [low, high] : [low, low + 1]
}

/** Finds the prompt at a position (shares of width and height from the top left) and its nearest visit. */
export function promptAt(
  { rows, firstStep, span }: PromptHeatData,
  x: number,
  y: number,
): { row: PromptHeatDto['rows'][number]; at: number } | null {
  const row = rows[Math.floor(y * rows.length)]
  if (row === undefined) return null
  const step = firstStep + Math.floor(x * span)
  let nearest = 0
  for (const [at, one] of row.steps.entries()) {
    if (Math.abs(one - step) <= Math.abs((row.steps[nearest] as number) - step)) nearest = at
  }
  return { row, at: nearest }
}
