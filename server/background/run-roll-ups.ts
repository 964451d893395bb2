import type { Database } from '../store/database.ts'
import { eachInTurn } from '../store/periodic-task.ts'
import { runsToRollUp, storeRunRollUp } from '../store/sql/run-roll-ups.ts'

/** Maximum number of runs per round. A run takes 5 ms, or 60 ms when 200 batches are included for the first time. */
const MAX_RUNS = 20

/** Rolls up the runs whose batches have changed. `all`: includes runs that are not due yet. */
export async function rollUpRuns(
  db: Database,
  { all = false, isStopping = () => false }: { all?: boolean; isStopping?(): boolean } = {},
): Promise<void> {
  for (;;) {
    const runs = await runsToRollUp(db, MAX_RUNS, all)
    await eachInTurn(runs, async (run) => {
      if (!isStopping()) await storeRunRollUp(db, run, changeOf)
    })
    if (!all || isStopping() || runs.length < MAX_RUNS) return
  }
}

/**
 * Fits a least-squares line through the means. Returns the change along the line from the first step to the last, and
 * the standard error of that change from the residuals. Null for fewer than three means, or if the numbers are too
 * large.
 */
export function changeOf(
  steps: readonly number[],
  means: readonly number[],
): { change: number; error: number } | null {
  const n = means.length
  const [first, last] = [steps[0], steps.at(-1)]
  if (n < 3 || first === undefined || last === undefined) return null
  const middle = steps.reduce((sum, step) => sum + step, 0) / n
  const mean = means.reduce((sum, value) => sum + value / n, 0)
  let xx = 0
  let xy = 0
  for (const [at, value] of means.entries()) {
    const x = (steps[at] as number) - middle
    xx += x * x
    xy += x * (value - mean)
  }
  const slope = xy / xx
  let squares = 0
  for (const [at, value] of means.entries()) {
    squares += (value - mean - slope * ((steps[at] as number) - middle)) ** 2
  }
  const span = last - first
  const change = slope * span
  const error = Math.sqrt(squares / (n - 2) / xx) * span
  return Number.isFinite(change) && Number.isFinite(error) ? { change, error } : null
}
