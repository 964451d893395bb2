import { z } from 'zod'
import type { OverviewRunDto } from '../contract/pages.ts'
import {
  type RunFacetsDto,
  type RunTableDto,
  RunTableInput,
  type RunTableRowDto,
} from '../contract/run-table.ts'
import { RewardOpsError } from '../errors.ts'
import { Memo } from '../memo.ts'
import type { Database } from '../store/database.ts'
import { lastMeans } from '../store/sql/run-roll-ups.ts'
import { type RunPlace, type RunTableRow, runFacets, runTable } from '../store/sql/run-table.ts'

const TTL_MS = 700
/** Time that tags and configuration keys are cached, because they are read from up to 2,000 runs. */
const FACETS_TTL_MS = 3_000
const VERSION_CHARS = 7
/**
 * `latest` reads this many times its limit of runs, because it skips new runs without a batch and puts older runs with
 * unfinished batches first.
 */
const SEARCHED = 5
/** Quantiles of Student's t distribution at 97.5 %, for 1 to 18 degrees of freedom. */
const T_QUANTILES = [
  12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.16, 2.145,
  2.131, 2.12, 2.11, 2.101,
]

const Place = z.tuple([
  z.string().nullable(),
  z.number().nullable(),
  z.string().nullable(),
  z.int(),
])

export class RunTable {
  readonly #db: Database
  readonly #pages = new Memo<RunTableDto>(TTL_MS)
  readonly #facets = new Memo<RunFacetsDto>(FACETS_TTL_MS)

  constructor(db: Database) {
    this.#db = db
  }

  /** @throws RewardOpsError `cursor_mismatch` */
  get(input: RunTableInput): Promise<RunTableDto> {
    return this.#pages.get(JSON.stringify(input), async () => {
      const rows = await runTable(this.#db, input, placeOf(input.cursor ?? null))
      const page = rows.slice(0, input.limit)
      const last = rows.length > input.limit ? page.at(-1) : undefined
      // A page after the last run has no row with the totals.
      const { total = 0, runs = 0 } = rows[0] ?? (await this.#totals(input))
      return {
        items: page.map((row) => runOf(row, input.byTag)),
        nextCursor: last === undefined ? null : cursorOf(last),
        total,
        runs,
      }
    })
  }

  facets(): Promise<RunFacetsDto> {
    return this.#facets.get('', () => runFacets(this.#db))
  }

  /**
   * Returns the runs with unfinished batches, then those with the newest batches, with the mean scores of their last
   * steps.
   */
  async latest(limit: number, steps: number): Promise<OverviewRunDto[]> {
    // The table also lists runs without a batch, by the time of their configuration. They are left out here.
    const input = RunTableInput.parse({ limit: limit * SEARCHED })
    const rows = (await runTable(this.#db, input, null))
      .filter(({ last_at }) => last_at !== null)
      .sort((a, b) => Number(a.status === 'idle') - Number(b.status === 'idle'))
      .slice(0, limit)
    const means = new Map(
      (
        await lastMeans(
          this.#db,
          rows.map(({ id }) => id),
          steps,
        )
      ).map((row) => [row.run_id, row]),
    )
    return rows.map((row) => {
      const { name, status, since, pending, split, lastStep, mean, change } = runOf(row, false)
      const last = means.get(row.id)
      return {
        ...{ name, status, since, pending, split, lastStep, mean, change },
        curve: curveOf(last?.steps, last?.means),
      }
    })
  }

  async #totals(input: RunTableInput): Promise<{ total?: number; runs?: number }> {
    const [row] = await runTable(this.#db, { ...input, ...ALL, limit: 1 }, null)
    return row === undefined ? {} : { total: 0, runs: row.runs }
  }
}

const ALL = { search: undefined, tags: [], status: undefined, config: [] }

function cursorOf({ tag, n, t, id }: RunPlace): string {
  return Buffer.from(JSON.stringify([tag, n, t, id])).toString('base64url')
}

function placeOf(cursor: string | null): RunPlace | null {
  if (cursor === null) return null
  try {
    const [tag, n, t, id] = Place.parse(JSON.parse(Buffer.from(cursor, 'base64url').toString()))
    return { tag, n, t, id }
  } catch {
    throw new RewardOpsError(
      'cursor_mismatch',
      `"${cursor.slice(0, 40)}" is not a cursor of runs.table.`,
    )
  }
}

export function rewardOf({
  reward_name,
  reward_hash,
}: Pick<RunTableRow, 'reward_name' | 'reward_hash'>): RunTableRowDto['reward'] {
  if (reward_name === null || reward_hash === null) return null
  return { name: reward_name, version: reward_hash.slice(0, VERSION_CHARS) }
}

function runOf(row: RunTableRow, byTag: boolean): RunTableRowDto {
  return {
    name: row.name,
    seeded: row.seeded,
    createdAt: row.created_at.toISOString(),
    tags: row.tags,
    status: row.status,
    since: row.since?.toISOString() ?? null,
    pending: row.pending,
    split: row.split,
    lastStep: row.last_step,
    lastSubmittedAt: row.last_at?.toISOString() ?? null,
    batches: row.batches,
    validationBatches: row.validation_batches,
    rescoredBatches: row.rescored_batches,
    samples: row.samples,
    failed: row.failed,
    noSignal: row.groups === 0 ? null : row.no_signal / row.groups,
    mean: row.mean,
    best:
      row.best_mean === null || row.best_step === null
        ? null
        : { mean: row.best_mean, step: row.best_step },
    change: intervalOf(row.change, row.change_error, row.change_steps),
    curve: curveOf(row.curve_steps, row.curve_means),
    reward: rewardOf(row),
    config: row.config ?? {},
    tag: row.tag,
    tagRuns: byTag ? row.tag_runs : null,
  }
}

function curveOf(steps: readonly number[] | null = [], means: readonly number[] | null = []) {
  return (steps ?? []).map((step, at) => ({ step, mean: means?.[at] as number }))
}

/** Adds the 95 % confidence interval to a change, from the t distribution with `steps` − 2 degrees of freedom. */
export function intervalOf(
  value: number | null,
  error: number | null,
  steps: number,
): RunTableRowDto['change'] {
  const quantile = T_QUANTILES[steps - 3]
  if (value === null || error === null || quantile === undefined) return null
  return { value, low: value - quantile * error, high: value + quantile * error, steps }
}
