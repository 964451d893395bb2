import type { ComparedRunDto, CompareRunsDto, CompareRunsInput } from '../contract/compare.ts'
import { MAX_STEP } from '../contract/fields.ts'
import { GROUP_SIGNALS, type GroupSignalCounts } from '../contract/group-signal.ts'
import { MAX_POINTS } from '../contract/runs.ts'
import { Memo } from '../memo.ts'
import { type StepScores, stepDeltas } from '../rewards/comparison/step-delta.ts'
import type { Database } from '../store/database.ts'
import { type NamedRunRow, runColumns, runsByName, sourceSteps } from '../store/sql/compare.ts'
import { runBins, sourceBins } from '../store/sql/run-bins.ts'
import { type StepRangeRow, type StepsOfRun, stepRange } from '../store/sql/run-view.ts'
import { rewardOf } from './run-table.ts'
import { binWidth, pairOf } from './run-view.ts'

const TTL_MS = 1_000
/**
 * Maximum share of time spent on the queries of one comparison. To stay below the share, slow comparisons are cached
 * for longer than `TTL_MS`.
 */
const MAX_SHARE = 0.1
const MAX_SOURCES = 12

interface Compared
  extends Pick<ComparedRunDto, 'means' | 'quantiles' | 'failedShare' | 'noSignalShare' | 'waitMs'> {
  points: (StepScores & { std: number | null })[]
}

interface Grid {
  width: number
  /** The lowest step of all runs. */
  first: number
}

/** Compares runs by step, from their batches' roll-ups only. */
export class CompareRunsView {
  readonly #db: Database
  readonly #memo = new Memo<CompareRunsDto>(TTL_MS, 0, MAX_SHARE)

  constructor(db: Database) {
    this.#db = db
  }

  /** Compares every run with the first run of the input. `missing` in the result lists unknown runs. */
  get(input: CompareRunsInput): Promise<CompareRunsDto> {
    const { runs, split, from = 0, until = MAX_STEP } = input
    const names = [...new Set(runs)]
    return this.#memo.get(JSON.stringify([names, split, from, until]), () =>
      this.#compute(names, { split, first: from, last: until }),
    )
  }

  async #compute(
    names: readonly string[],
    wanted: Omit<StepsOfRun, 'runId'>,
  ): Promise<CompareRunsDto> {
    const byName = new Map((await runsByName(this.#db, names)).map((run) => [run.name, run]))
    const runs = names.flatMap((name) => byName.get(name) ?? [])
    const ranges: (StepsOfRun & { count: number })[] = []
    // Runs are read one after the other, because eight concurrent reads would take all database connections that pages
    // use.
    for (const { id } of runs) {
      const range = { runId: id, ...wanted }
      ranges.push({ ...range, ...narrowed(await stepRange(this.#db, range), range) })
    }
    const shown = ranges.filter(({ count }) => count > 0)
    const grid = gridOf(shown)
    const compared: Compared[] = []
    for (const range of ranges) {
      compared.push(grid === null ? await this.#single(range) : await this.#binned(range, grid))
    }
    const [first, ...others] = compared
    return {
      split: wanted.split,
      width: grid?.width ?? 1,
      runs: runs.map((run, at) => toRun(run, compared[at] as Compared)),
      missing: names.filter((name) => !byName.has(name)),
      deltas:
        first === undefined
          ? []
          : others.map((other, at) => ({
              run: (runs[at + 1] as (typeof runs)[number]).name,
              steps: stepDeltas(first.points, other.points),
            })),
      sources:
        first === undefined || others.length !== 1
          ? []
          : grid === null
            ? await this.#sources(first, others[0] as Compared)
            : await this.#binnedSources(ranges, grid),
    }
  }

  async #single(range: StepsOfRun): Promise<Compared> {
    const run = await runColumns(this.#db, range)
    return {
      points: run.step.map((step, at) => {
        const isIn = run.rolled_up[at] === true
        return {
          step,
          batchId: `b${run.batch[at]}`,
          n: isIn ? (run.n[at] ?? 0) : null,
          mean: isIn ? (run.mean[at] ?? null) : null,
          std: isIn ? (run.std[at] ?? null) : null,
          meanError: isIn ? (run.mean_error[at] ?? null) : null,
        }
      }),
      means: run.step.map(() => null),
      quantiles: columnsOf(run.quantiles),
      failedShare: run.step.map((_, at) =>
        shareOf(run.failed[at] as number, run.scored[at] as number),
      ),
      noSignalShare: run.group_signals.map(noSignalShare),
      waitMs: run.wait_ms,
    }
  }

  async #binned(range: StepsOfRun, grid: Grid): Promise<Compared> {
    const rows = await runBins(this.#db, { ...range, width: grid.width })
    return {
      points: rows.map((row) => ({
        ...{ step: startOf(Math.floor(row.step / grid.width), grid), batchId: `b${row.id}` },
        ...{ n: row.n, mean: row.mean, std: row.std, meanError: row.mean_error },
      })),
      means: rows.map(({ means }) => pairOf(means)),
      quantiles: columnsOf(rows.map(({ quantiles }) => quantiles)),
      failedShare: rows.map(({ failed, scored }) => shareOf(failed, scored)),
      noSignalShare: rows.map((row) => noSignalShare(row.group_signals)),
      waitMs: rows.map(({ wait_ms }) => wait_ms),
    }
  }

  async #sources(first: Compared, other: Compared): Promise<CompareRunsDto['sources']> {
    const steps = new Set(other.points.map(({ step }) => step))
    const shared = new Set(first.points.map(({ step }) => step).filter((step) => steps.has(step)))
    const stepOf = new Map<number, { isFirst: boolean; step: number }>()
    for (const run of [first, other]) {
      for (const { step, batchId, n } of run.points) {
        if (n !== null && shared.has(step))
          stepOf.set(Number(batchId.slice(1)), { isFirst: run === first, step })
      }
    }
    const rows = await sourceSteps(this.#db, [...stepOf.keys()], MAX_SOURCES)
    return differencesBySource(
      rows.map((row) => ({
        ...{ ...row, meanError: row.mean_error, batchId: `b${row.batch_id}` },
        ...(stepOf.get(row.batch_id) as { isFirst: boolean; step: number }),
      })),
    )
  }

  async #binnedSources(
    ranges: readonly StepsOfRun[],
    grid: Grid,
  ): Promise<CompareRunsDto['sources']> {
    const rows = []
    for (const [at, range] of ranges.entries()) {
      for (const row of await sourceBins(this.#db, { ...range, width: grid.width })) {
        rows.push({
          ...{ ...row, meanError: row.mean_error, batchId: '' },
          ...{ isFirst: at === 0, step: startOf(row.bin, grid) },
        })
      }
    }
    return differencesBySource(rows)
  }
}

/** Narrows a range to its first and last existing step and adds the number of steps. An empty range stays as it is. */
function narrowed({ steps, first, last }: StepRangeRow, range: StepsOfRun) {
  return { count: steps, first: first ?? range.first, last: last ?? range.last }
}

/** Returns the common bins if any run has more than 1,000 steps, or null if each step is a point. */
function gridOf(runs: readonly { count: number; first: number; last: number }[]): Grid | null {
  if (runs.every(({ count }) => count <= MAX_POINTS)) return null
  const first = Math.min(...runs.map((run) => run.first))
  const last = Math.max(...runs.map((run) => run.last))
  return { width: binWidth({ first, last }, MAX_POINTS), first }
}

function startOf(bin: number, { width, first }: Grid): number {
  return Math.max(first, bin * width)
}

function differencesBySource(
  rows: readonly (StepScores & { data_source: string; samples: number; isFirst: boolean })[],
): CompareRunsDto['sources'] {
  return [...Map.groupBy(rows, ({ data_source }) => data_source)]
    .map(([name, points]) => ({
      name,
      samples: points.reduce((sum, point) => sum + point.samples, 0),
      steps: stepDeltas(
        points.filter(({ isFirst }) => isFirst),
        points.filter(({ isFirst }) => !isFirst),
      ).sort((a, b) => a.step - b.step),
    }))
    .filter(({ steps }) => steps.length > 0)
    .sort((a, b) => b.samples - a.samples || (a.name < b.name ? -1 : 1))
    .slice(0, MAX_SOURCES)
    .map(({ name, steps }) => ({ name, steps }))
}

function toRun(run: NamedRunRow, { points, ...columns }: Compared): ComparedRunDto {
  return {
    ...{ name: run.name, seeded: run.seeded, reward: rewardOf(run) },
    batchId: points.map(({ batchId }) => batchId),
    step: points.map(({ step }) => step),
    n: points.map(({ n }) => n),
    mean: points.map(({ mean }) => mean),
    std: points.map(({ std }) => std),
    ...columns,
  }
}

function columnsOf(quantiles: readonly ((number | null)[] | null)[]): (number | null)[][] {
  return Array.from({ length: 5 }, (_, q) => quantiles.map((row) => row?.[q] ?? null))
}

function shareOf(failed: number, scored: number): number | null {
  return failed + scored === 0 ? null : failed / (failed + scored)
}

function noSignalShare(counts: GroupSignalCounts | null): number | null {
  if (counts === null) return null
  const groups = GROUP_SIGNALS.reduce((sum, signal) => sum + counts[signal], 0)
  return groups === 0 ? null : 1 - counts.varied / groups
}
