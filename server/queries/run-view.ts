import type { RunMarkDto } from '../contract/marks.ts'
import {
  MAX_STEPS,
  type RunDto,
  type RunInput,
  type RunRowDto,
  type RunSourceDto,
  type RunStepDto,
} from '../contract/runs.ts'
import { runNotFound } from '../errors.ts'
import { Memo } from '../memo.ts'
import type { Database } from '../store/database.ts'
import { runRows } from '../store/sql/run-table.ts'
import {
  type RunRow,
  type RunStepRow,
  rescoresOfSteps,
  runByName,
  runSteps,
  type SourceRow,
  serverChanges,
  sourcesOfBatches,
  stepsOutside,
} from '../store/sql/run-view.ts'
import { runHeat } from './run-heat.ts'

/** More marks of servers, or of rescores, would hide the chart. */
const MAX_MARKS_OF_A_KIND = 40
/** Maximum number of runs in lists to choose from. */
const MAX_LISTED = 1_000
/** Time that a run's page is cached. */
const TTL_MS = 700

/** The data of the run pages, from the roll-ups of the runs' batches. */
export class RunView {
  readonly #db: Database
  readonly #memo = new Memo<RunDto>(TTL_MS)

  constructor(db: Database) {
    this.#db = db
  }

  /** The runs, newest first. */
  async list(): Promise<RunRowDto[]> {
    return (await runRows(this.#db, MAX_LISTED)).map((row) => ({
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
    return this.#memo.get(JSON.stringify([input.name, input.split, input.until]), () =>
      this.#compute(input),
    )
  }

  /** Marks at steps where a server of the reward was registered or removed, and at rescored steps. */
  async #otherMarks(
    run: RunRow,
    split: 'train' | 'val',
    rows: readonly RunStepRow[],
  ): Promise<RunMarkDto[]> {
    const [first, last] = [rows[0], rows.at(-1)]
    if (first === undefined || last === undefined) return []
    const from = first.submitted_at
    const changes = await serverChanges(
      this.#db,
      last.id,
      from,
      last.submitted_at,
      MAX_MARKS_OF_A_KIND,
    )
    const range = { first: first.step, last: last.step, limit: MAX_MARKS_OF_A_KIND }
    const rescores =
      run.rescored_batches === 0 ? [] : await rescoresOfSteps(this.#db, run.id, split, range)
    const marks = [
      ...changes.map(({ name, model, at, is_removal }) => {
        const step = rows.find(({ submitted_at }) => submitted_at >= at)?.step ?? last.step
        const what = is_removal ? 'removed' : 'registered'
        const note = `The server ${name} of the model ${model} was ${what} before this step.`
        return autoMark(step, at, `${name} ${what}`, note)
      }),
      ...rescores.map(({ step, submitted_at, reward_name }) =>
        autoMark(step, submitted_at, 'rescored', `This step was rescored with “${reward_name}”.`),
      ),
    ]
    // One of several rescores of a step.
    return [...new Map(marks.map((mark) => [`${mark.step} ${mark.label}`, mark])).values()]
  }

  /** The numbers of steps before and after the shown ones. */
  async #omitted(
    runId: number,
    split: 'train' | 'val',
    rows: readonly RunStepRow[],
    until: number | undefined,
  ): Promise<Pick<RunDto, 'earlier' | 'later'>> {
    if (until === undefined && rows.length < MAX_STEPS) return { earlier: 0, later: 0 }
    const [first, last] = [rows[0]?.step, rows.at(-1)?.step]
    if (first === undefined || last === undefined) return { earlier: 0, later: 0 }
    return stepsOutside(this.#db, runId, split, first, last)
  }

  async #compute({ name, split, until }: RunInput): Promise<RunDto> {
    const run = await runByName(this.#db, name, split)
    if (run === undefined) {
      throw runNotFound(name)
    }
    const rows = await runSteps(this.#db, run.id, split, MAX_STEPS, until)
    const rolledUp = rows.filter((row) => row.rolled_up)
    const sources = await sourcesOfBatches(
      this.#db,
      rolledUp.map(({ id }) => id),
    )
    return {
      name: run.name,
      seeded: run.seeded,
      createdAt: run.created_at.toISOString(),
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
      ...(await this.#omitted(run.id, split, rows, until)),
      pending: rows.filter((row) => row.completed_at !== null && !row.rolled_up).length,
      steps: rows.map((row, at) => stepOf(row, rows[at + 1])),
      sources: sourcesOf(rows, sources),
      heat: runHeat(
        rolledUp.map((row) => ({
          step: row.step,
          min: row.min ?? 0,
          max: row.max ?? 0,
          values: row.bin_values ?? [],
          counts: row.bin_counts ?? [],
        })),
      ),
      marks: [...marksOf(rows), ...(await this.#otherMarks(run, split, rows))],
    }
  }
}

function stepOf(row: RunStepRow, next: RunStepRow | undefined): RunStepDto {
  const submittedMs = row.submitted_at.getTime()
  // Negative if the step was submitted again after the next one; it then has no step time.
  const untilNextMs = next === undefined ? null : next.submitted_at.getTime() - submittedMs
  const quantiles = row.quantiles?.length === 5 ? row.quantiles : null
  return {
    step: row.step,
    batchId: `b${row.id}`,
    status: row.status,
    others: row.others,
    samples: row.samples,
    scored: row.scored,
    failed: row.failed,
    substituted: row.substituted ?? 0,
    groups: row.groups,
    retries: row.retries,
    n: row.rolled_up ? (row.n ?? 0) : null,
    mean: row.mean,
    std: row.std,
    min: row.min,
    max: row.max,
    quantiles: quantiles as RunStepDto['quantiles'],
    groupSignals: row.group_signals,
    reasons: row.reasons ?? {},
    verdicts: (row.verdicts ?? []).map(({ verdict, n }) => ({ verdict, n })),
    meanError: row.mean_error,
    submittedAt: row.submitted_at.toISOString(),
    waitMs: row.completed_at === null ? null : row.completed_at.getTime() - submittedMs,
    stepMs: untilNextMs !== null && untilNextMs > 0 ? untilNextMs : null,
    queueMsP50: row.queue_ms?.[0] ?? null,
    scoreMsP50: row.score_ms?.[0] ?? null,
    scoreMsP95: row.score_ms?.[1] ?? null,
  }
}

function sourcesOf(rows: readonly RunStepRow[], sources: readonly SourceRow[]): RunSourceDto[] {
  const stepOfBatch = new Map(rows.map(({ id, step }) => [id, step]))
  const bySource = Map.groupBy(sources, ({ data_source }) => data_source)
  return [...bySource]
    .map(([name, points]) => ({
      name,
      samples: points.reduce((sum, { samples }) => sum + samples, 0),
      points: points
        .map(({ batch_id, n, mean, q25, q75, failed }) => ({
          ...{ step: stepOfBatch.get(batch_id) as number, n, mean, q25, q75, failed },
        }))
        .sort((a, b) => a.step - b.step),
    }))
    .sort((a, b) => b.samples - a.samples || (a.name < b.name ? -1 : 1))
}

/** Marks at the steps where the reward changed. */
function marksOf(rows: readonly RunStepRow[]): RunMarkDto[] {
  const marks: RunMarkDto[] = []
  for (const [at, row] of rows.entries()) {
    const before = rows[at - 1]
    if (before === undefined || before.reward_hash === row.reward_hash) continue
    const same = before.reward_name === row.reward_name
    const label = same ? 'reward changed' : `reward: ${row.reward_name}`
    const note = same
      ? `The settings or the version of the reward “${row.reward_name}” changed.`
      : `The reward changed from “${before.reward_name}” to “${row.reward_name}”.`
    marks.push(autoMark(row.step, row.submitted_at, label, note))
  }
  return marks
}

function autoMark(step: number, at: Date, label: string, note: string): RunMarkDto {
  return {
    ...{ id: null, kind: 'auto', step, author: null, at: at.toISOString() },
    ...{ label: label.slice(0, 60), note },
  }
}
