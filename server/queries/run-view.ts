import { MAX_STEP } from '../contract/fields.ts'
import type { RunMarkDto } from '../contract/marks.ts'
import {
  MAX_LISTED_RUNS,
  MAX_POINTS,
  RECENT_STEPS,
  type RunDto,
  type RunInput,
  type RunRowDto,
  type RunSourceDto,
  type RunStepDto,
} from '../contract/runs.ts'
import { runNotFound } from '../errors.ts'
import { Memo } from '../memo.ts'
import type { Database } from '../store/database.ts'
import {
  type BinnedSteps,
  heatBins,
  type RunBinRow,
  runBins,
  scoreScale,
  sourceBins,
} from '../store/sql/run-bins.ts'
import { runRows } from '../store/sql/run-table.ts'
import {
  type RunRow,
  type RunStepRow,
  rescoresOfSteps,
  rewardChanges,
  runByName,
  runSteps,
  type StepsOfRun,
  serverChanges,
  sourcesOfBatches,
  stepRange,
} from '../store/sql/run-view.ts'
import { heatOfBins, MAX_ROWS, ROWS, runHeat } from './run-heat.ts'
import { intervalOf } from './run-table.ts'

/** Maximum number of automatic marks of one kind, because more would hide the chart. */
const MAX_MARKS_OF_A_KIND = 40
const TTL_MS = 700
/**
 * The queries of one run may take at most this share of the time. They take about half a second for 10,000 steps, so
 * the result for a long run is cached for longer than `TTL_MS`.
 */
const MAX_SHARE = 0.1

type Charted = Pick<RunDto, 'pending' | 'steps' | 'recent' | 'sources' | 'heat'>

export class RunView {
  readonly #db: Database
  readonly #memo = new Memo<RunDto>(TTL_MS, 0, MAX_SHARE)

  constructor(db: Database) {
    this.#db = db
  }

  /** The runs, newest first. */
  async list(): Promise<RunRowDto[]> {
    return (await runRows(this.#db, MAX_LISTED_RUNS)).map((row) => ({
      name: row.name,
      batches: row.batches,
      validationBatches: row.validation_batches,
      rescoredBatches: row.rescored_batches,
      lastStep: row.last_step,
      lastSubmittedAt: row.last_at.toISOString(),
      seeded: row.seeded,
    }))
  }

  /** @throws RewardOpsError `run_not_found` */
  get(input: RunInput): Promise<RunDto> {
    return this.#memo.get(JSON.stringify([input.name, input.split, input.from, input.until]), () =>
      this.#compute(input),
    )
  }

  async #marks(
    run: RunRow,
    steps: StepsOfRun,
    { steps: points, recent }: Charted,
  ): Promise<RunMarkDto[]> {
    const [first, last] = [points[0], recent.at(-1)]
    if (first === undefined || last === undefined) return []
    const rewards = await rewardChanges(this.#db, steps, MAX_MARKS_OF_A_KIND)
    const times = { from: new Date(first.submittedAt), to: new Date(last.submittedAt) }
    const servers = await serverChanges(
      this.#db,
      Number(last.batchId.slice(1)),
      steps,
      times,
      MAX_MARKS_OF_A_KIND,
    )
    const rescores =
      run.rescored_batches === 0 ? [] : await rescoresOfSteps(this.#db, steps, MAX_MARKS_OF_A_KIND)
    const marks = [
      ...rewards.reverse().map(({ step, submitted_at, reward_name, before }) => {
        const same = before === reward_name
        const label = same ? 'reward changed' : `reward: ${reward_name}`
        const note = same
          ? `The settings or the version of the reward “${reward_name}” changed.`
          : `The reward changed from “${before}” to “${reward_name}”.`
        return autoMark(step, submitted_at, label, note)
      }),
      ...servers.reverse().map(({ name, model, at, is_removal, step }) => {
        const what = is_removal ? 'removed' : 'registered'
        const note = `The server ${name} of the model ${model} was ${what} before this step.`
        return autoMark(step, at, `${name} ${what}`, note)
      }),
      ...rescores
        .reverse()
        .map(({ step, submitted_at, reward_name }) =>
          autoMark(step, submitted_at, 'rescored', `This step was rescored with “${reward_name}”.`),
        ),
    ]
    // If a step was rescored several times, only the mark of its newest rescore is kept.
    return [...new Map(marks.map((mark) => [`${mark.step} ${mark.label}`, mark])).values()]
  }

  async #single(steps: StepsOfRun): Promise<Charted> {
    const rows = await runSteps(this.#db, steps, MAX_POINTS)
    const rolledUp = rows.filter((row) => row.rolled_up)
    const sources = await sourcesOfBatches(
      this.#db,
      rolledUp.map(({ id }) => id),
    )
    const stepOfBatch = new Map(rows.map(({ id, step }) => [id, step]))
    const points = stepsOf(rows)
    return {
      pending: rows.filter(isPending).length,
      steps: points,
      recent: points.slice(-RECENT_STEPS),
      sources: sourcesOf(
        sources.map((row) => ({ ...row, step: stepOfBatch.get(row.batch_id) as number })),
      ),
      heat: runHeat(
        rolledUp.map((row) => ({
          step: row.step,
          min: row.min ?? 0,
          max: row.max ?? 0,
          values: row.bin_values ?? [],
          counts: row.bin_counts ?? [],
        })),
      ),
    }
  }

  async #binned(steps: BinnedSteps): Promise<Charted> {
    const rows = await runBins(this.#db, steps)
    const recent = await runSteps(this.#db, steps, RECENT_STEPS)
    const stepOfBin = new Map(rows.map(({ step }) => [Math.floor(step / steps.width), step]))
    const inSteps = <T extends { bin: number }>(some: readonly T[]) =>
      some.map((row) => ({ ...row, step: stepOfBin.get(row.bin) as number }))
    const sources = await sourceBins(this.#db, steps)
    const scale = await scoreScale(this.#db, steps, MAX_ROWS)
    const { low, high, values } = scale
    const heat =
      low === null || high === null || (values === null && low === high)
        ? null
        : heatOfBins(
            { low, high, values },
            inSteps(
              await heatBins(
                this.#db,
                steps,
                values === null ? { low, high, count: ROWS } : { values },
              ),
            ),
          )
    return {
      pending: rows.reduce((sum, { pending }) => sum + pending, 0),
      steps: rows.map(binOf),
      recent: stepsOf(recent),
      sources: sourcesOf(inSteps(sources)),
      heat,
    }
  }

  async #compute({ name, split, from = 0, until = MAX_STEP }: RunInput): Promise<RunDto> {
    const run = await runByName(this.#db, name, split)
    if (run === undefined) {
      throw runNotFound(name)
    }
    const range = { runId: run.id, split, first: from, last: until }
    const { steps: count, first, last, earlier, later } = await stepRange(this.#db, range)
    const steps = { ...range, first: first ?? from, last: last ?? until }
    const charted =
      count <= MAX_POINTS
        ? await this.#single(steps)
        : await this.#binned({ ...steps, width: binWidth(steps, MAX_POINTS) })
    return {
      name: run.name,
      seeded: run.seeded,
      createdAt: run.created_at.toISOString(),
      startedAt: run.started_at?.toISOString() ?? null,
      split,
      splits: (
        [
          ['train', run.batches_train],
          ['val', run.batches_val],
        ] as const
      ).map(([name, batches]) => ({ split: name, batches })),
      batches: split === 'train' ? run.batches_train : run.batches_val,
      samples: run.samples,
      scored: run.scored,
      failed: run.failed,
      rescored: { batches: run.rescored_batches, samples: run.rescored_samples },
      ...{ earlier, later },
      change: intervalOf(run.change, run.change_error, run.change_steps),
      ...charted,
      marks: await this.#marks(run, steps, charted),
    }
  }
}

/**
 * Returns the width of a bin in steps: the smallest power of two with which at most `most` bins cover a range. As a run
 * grows, its bins stay the same until the width doubles, which merges pairs of bins.
 */
export function binWidth({ first, last }: { first: number; last: number }, most: number): number {
  let width = 1
  while (Math.floor(last / width) - Math.floor(first / width) >= most) width *= 2
  return width
}

function isPending({ completed_at, rolled_up }: RunStepRow): boolean {
  return completed_at !== null && !rolled_up
}

function stepsOf(rows: readonly RunStepRow[]): RunStepDto[] {
  return rows.map((row, at) => stepOf(row, rows[at + 1]))
}

function stepOf(row: RunStepRow, next: RunStepRow | undefined): RunStepDto {
  const submittedMs = row.submitted_at.getTime()
  // If this step was submitted again after the next step, the difference is negative and this step has no step time.
  const untilNextMs = next === undefined ? null : next.submitted_at.getTime() - submittedMs
  return {
    ...sharedOf(row),
    bin: null,
    substituted: row.substituted ?? 0,
    n: row.rolled_up ? (row.n ?? 0) : null,
    verdicts: (row.verdicts ?? []).map(({ verdict, n }) => ({ verdict, n })),
    waitMs: row.completed_at === null ? null : row.completed_at.getTime() - submittedMs,
    stepMs: untilNextMs !== null && untilNextMs > 0 ? untilNextMs : null,
    queueMsP50: row.queue_ms?.[0] ?? null,
    scoreMsP50: row.score_ms?.[0] ?? null,
    scoreMsP95: row.score_ms?.[1] ?? null,
  }
}

function binOf(row: RunBinRow): RunStepDto {
  return {
    ...sharedOf(row),
    bin: {
      ...{ last: row.last, steps: row.steps, means: pairOf(row.means) },
      ...{ waitsMs: pairOf(row.waits_ms), failedShares: pairOf(row.failed_shares) },
    },
    substituted: row.substituted,
    n: row.n,
    verdicts: row.verdicts ?? [],
    waitMs: row.wait_ms,
    stepMs: row.step_ms,
    queueMsP50: row.queue_ms_p50,
    scoreMsP50: row.score_ms_p50,
    scoreMsP95: row.score_ms_p95,
  }
}

function sharedOf(row: RunStepRow | RunBinRow) {
  return {
    step: row.step,
    batchId: `b${row.id}`,
    status: row.status,
    others: row.others,
    samples: row.samples,
    scored: row.scored,
    failed: row.failed,
    groups: row.groups,
    retries: row.retries,
    mean: row.mean,
    std: row.std,
    min: row.min,
    max: row.max,
    quantiles: quantilesOf(row.quantiles),
    groupSignals: row.group_signals,
    reasons: row.reasons ?? {},
    meanError: row.mean_error,
    submittedAt: row.submitted_at.toISOString(),
  }
}

function quantilesOf(values: readonly (number | null)[] | null): RunStepDto['quantiles'] {
  return values?.length === 5 && values.every((value) => value !== null)
    ? (values as NonNullable<RunStepDto['quantiles']>)
    : null
}

/** The lowest and the highest value; null if one is missing. */
export function pairOf([low, high]: readonly (number | null)[]): [number, number] | null {
  return low == null || high == null ? null : [low, high]
}

/** The data sources, largest first, each with its points in order of step. */
function sourcesOf(
  rows: readonly (RunSourceDto['points'][number] & { data_source: string; samples: number })[],
): RunSourceDto[] {
  return [...Map.groupBy(rows, ({ data_source }) => data_source)]
    .map(([name, points]) => ({
      name,
      samples: points.reduce((sum, { samples }) => sum + samples, 0),
      points: points
        .map(({ step, n, mean, q25, q75, failed }) => ({ step, n, mean, q25, q75, failed }))
        .sort((a, b) => a.step - b.step),
    }))
    .sort((a, b) => b.samples - a.samples || (a.name < b.name ? -1 : 1))
}

function autoMark(step: number, at: Date, label: string, note: string): RunMarkDto {
  return {
    ...{ id: null, kind: 'auto', step, author: null, at: at.toISOString() },
    ...{ label: label.slice(0, 60), note },
  }
}
