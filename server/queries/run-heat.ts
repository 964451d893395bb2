import type { RunHeatDto } from '../contract/runs.ts'

export const MAX_ROWS = 24
export const ROWS = 32

export interface StepBins {
  step: number
  min: number
  max: number
  /** The distinct scores, parallel to the counts. If empty, the counts are those of equal bins from min to max. */
  values: readonly number[]
  counts: readonly number[]
}

/**
 * Puts all steps' scores on one scale: a row per distinct score, or equal bins if there are many. Returns null if there
 * are no scores.
 */
export function runHeat(steps: readonly StepBins[]): RunHeatDto | null {
  const drawn = steps.filter(({ counts }) => counts.length > 0)
  if (drawn.length === 0) return null
  const values = distinct(drawn)
  if (values !== null) {
    const rowOf = new Map(values.map((value, row) => [value, row]))
    return {
      kind: 'values',
      edges: values,
      steps: drawn.map((at) => {
        const shares = new Array<number>(values.length).fill(0)
        const n = total(at.counts)
        for (const [i, value] of at.values.entries()) {
          shares[rowOf.get(value) as number] = (at.counts[i] as number) / n
        }
        return { step: at.step, shares: shares.map(rounded) }
      }),
    }
  }
  const low = Math.min(...drawn.map(({ min }) => min))
  const high = Math.max(...drawn.map(({ max }) => max))
  const width = (high - low) / ROWS
  if (!Number.isFinite(width) || width <= 0) return null
  return {
    kind: 'bins',
    edges: edgesOf(low, high),
    steps: drawn.map((at) => ({ step: at.step, shares: spread(at, low, width).map(rounded) })),
  }
}

/**
 * Puts the scores of binned steps on one scale. The rows of the scale are the distinct `values`, or equal bins from
 * `low` to `high` if `values` is null. `bins` counts the samples of each bin of steps by row. Returns null if there are
 * no scores.
 */
export function heatOfBins(
  { low, high, values }: { low: number | null; high: number | null; values: number[] | null },
  bins: readonly { step: number; rows: readonly number[]; counts: readonly number[] }[],
): RunHeatDto | null {
  if (low === null || high === null || bins.length === 0) return null
  const rows = values?.length ?? ROWS
  return {
    kind: values === null ? 'bins' : 'values',
    edges: values ?? edgesOf(low, high),
    steps: bins.map(({ step, rows: places, counts }) => {
      const shares = new Array<number>(rows).fill(0)
      const n = total(counts)
      for (const [at, row] of places.entries()) shares[row] = (counts[at] as number) / n
      return { step, shares: shares.map(rounded) }
    }),
  }
}

function edgesOf(low: number, high: number): number[] {
  const width = (high - low) / ROWS
  return Array.from({ length: ROWS + 1 }, (_, i) => (i === ROWS ? high : low + i * width))
}

/** Returns all distinct scores, ascending, or null if there are too many or a step has only counts per bin. */
function distinct(steps: readonly StepBins[]): number[] | null {
  const all = new Set<number>()
  for (const { values } of steps) {
    if (values.length === 0) return null
    for (const value of values) all.add(value)
    if (all.size > MAX_ROWS) return null
  }
  return [...all].sort((a, b) => a - b)
}

/** Maps a step's bins to the common bins. Scores count as evenly spread within a bin. */
function spread(at: StepBins, low: number, width: number): number[] {
  const shares = new Array<number>(ROWS).fill(0)
  const n = total(at.counts)
  const rowOf = (score: number) =>
    Math.min(ROWS - 1, Math.max(0, Math.floor((score - low) / width)))
  const add = (row: number, share: number) => {
    shares[row] = (shares[row] as number) + share
  }
  if (at.values.length > 0) {
    for (const [i, value] of at.values.entries()) add(rowOf(value), (at.counts[i] as number) / n)
    return shares
  }
  const own = (at.max - at.min) / at.counts.length
  for (const [i, count] of at.counts.entries()) {
    if (count === 0) continue
    const from = at.min + i * own
    const to = from + own
    for (let row = rowOf(from); row <= rowOf(to); row++) {
      const overlap = Math.min(to, low + (row + 1) * width) - Math.max(from, low + row * width)
      if (overlap > 0) add(row, (count / n) * (overlap / own))
    }
  }
  return shares
}

function total(counts: readonly number[]): number {
  return counts.reduce((sum, count) => sum + count, 0)
}

/** Rounds to four decimal places, which is finer than the shades on a page. */
function rounded(share: number): number {
  return Math.round(share * 1e4) / 1e4
}
