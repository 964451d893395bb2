import { MAX_STEP } from '../contract/fields.ts'
import {
  PROMPT_CLASSES,
  type PromptClass,
  type PromptCountsDto,
  type PromptCountsInput,
  type PromptHeatDto,
  type PromptHeatInput,
  type PromptHistoryDto,
  type PromptHistoryInput,
  type PromptListDto,
  type PromptListInput,
  type PromptRowDto,
  type PromptSampleDto,
  type PromptSampleInput,
  type PromptStepsDto,
  type PromptStepsInput,
} from '../contract/prompts.ts'
import { MAX_STEPS } from '../contract/runs.ts'
import { RewardOpsError, runNotFound } from '../errors.ts'
import { Memo } from '../memo.ts'
import { passAtK, reportedK } from '../rewards/pass-at-k.ts'
import type { Database } from '../store/database.ts'
import { runIdOf } from '../store/sql/monitor-views.ts'
import {
  countPrompts,
  firstPrompts,
  groupPassesBefore,
  groupPassesOf,
  groupsWithoutPrompt,
  KEY_PREFIX_BYTES,
  type PromptRow,
  type PromptScope,
  promptOf,
  promptPage,
  promptsOf,
  recentPasses,
  visitedGroups,
} from '../store/sql/prompts.ts'
import { decodeVisits } from '../store/visit-bytes.ts'
import { drawPrompts } from './draw-prompts.ts'
import { inPortions } from './in-portions.ts'

/** Stale-while-revalidate: how long an answer is fresh, and how long after that it is still returned. */
const TTL_MS = 5_000
const STALE_MS = 60_000
const MAX_LISTED_VISITS = 32
const MAX_SOURCES = 64

export class PromptsView {
  readonly #db: Database
  readonly #counts = new Memo<PromptCountsDto>(TTL_MS, STALE_MS)
  readonly #steps = new Memo<PromptStepsDto>(TTL_MS, STALE_MS)
  readonly #heat = new Memo<PromptHeatDto>(TTL_MS, STALE_MS)

  constructor(db: Database) {
    this.#db = db
  }

  /** A page of the prompts of a run. @throws RewardOpsError `run_not_found`, `invalid_input` (cursor) */
  async list(input: PromptListInput): Promise<PromptListDto> {
    const { cursor, limit, orderBy, descending, ...filter } = input
    const scope = await this.#scope(input)
    const rows = await promptPage(this.#db, scope, filter, {
      ...{ orderBy, descending, limit: limit + 1 },
      after: cursor == null ? null : readCursor(cursor),
    })
    const page = rows.slice(0, limit)
    const last = page.at(-1)
    return {
      items: page.map(rowDto),
      nextCursor:
        rows.length > limit && last !== undefined ? JSON.stringify([last.sort, last.key]) : null,
    }
  }

  /** @throws RewardOpsError `run_not_found` */
  counts(input: PromptCountsInput): Promise<PromptCountsDto> {
    return this.#counts.get(JSON.stringify(input), async () => {
      const scope = await this.#scope(input)
      const rows = await countPrompts(this.#db, scope, input)
      const isFiltered = input.dataSource !== undefined || (input.search ?? '') !== ''
      const ofRun = isFiltered ? await countPrompts(this.#db, scope, {}) : rows
      const byClass = Object.fromEntries(PROMPT_CLASSES.map((name) => [name, 0]))
      let total = 0
      for (const { class: name, prompts } of rows) {
        total += prompts
        byClass[name] = (byClass[name] ?? 0) + prompts
      }
      const sources = new Map<string, number>()
      for (const { data_source: source, prompts } of ofRun) {
        sources.set(source, (sources.get(source) ?? 0) + prompts)
      }
      return {
        total,
        byClass: byClass as Record<PromptClass, number>,
        dataSources: [...sources]
          .map(([name, prompts]) => ({ name, prompts }))
          .sort((a, b) => b.prompts - a.prompts || (a.name < b.name ? -1 : 1))
          .slice(0, MAX_SOURCES),
        groupsWithoutPrompt: await groupsWithoutPrompt(this.#db, scope),
      }
    })
  }

  /** @throws RewardOpsError `run_not_found`, `prompt_not_found` */
  async history(input: PromptHistoryInput): Promise<PromptHistoryDto> {
    const scope = await this.#scope(input)
    const row = await promptOf(this.#db, scope, input.key)
    if (row === undefined) {
      throw new RewardOpsError('prompt_not_found', `The run has no prompt ${input.key}.`)
    }
    const visits = decodeVisits(row.history)
    const existing = await visitedGroups(
      this.#db,
      visits.map(({ batchId }) => batchId),
      visits.map(({ group }) => group),
    )
    const uidOf = new Map(existing.map(({ batch_id, no, uid }) => [`${batch_id}/${no}`, uid]))
    return {
      ...rowDto(row),
      history: visits.map(({ step, batchId, group, scored, passed, mean, std }) => ({
        step,
        batchId: `b${batchId}`,
        uid: uidOf.get(`${batchId}/${group}`) ?? null,
        scored,
        passed,
        mean,
        std: scored > 1 ? std : null,
      })),
    }
  }

  /** @throws RewardOpsError `run_not_found` */
  heat(input: PromptHeatInput): Promise<PromptHeatDto> {
    return this.#heat.get(JSON.stringify(input), async () => {
      const { limit, ...filter } = input
      const scope = await this.#scope(input)
      const rows = await firstPrompts(this.#db, scope, filter, limit)
      const { class: name, ...allClasses } = filter
      const { total, byClass } = await this.counts(allClasses)
      return {
        total: name === undefined ? total : byClass[name],
        passRates: rows.every(({ passed }) => passed !== null),
        rows: rows
          .map((row) => ({ row, rate: rateOf(row) }))
          .sort((a, b) => b.rate - a.rate || (a.row.key < b.row.key ? -1 : 1))
          .map(({ row }) => {
            const visits = decodeVisits(row.history)
            return {
              key: row.key,
              promptId: row.prompt_id,
              preview: row.preview,
              steps: visits.map(({ step }) => step),
              rates: visits.map(rateOf),
            }
          }),
      }
    })
  }

  /** @throws RewardOpsError `run_not_found` */
  steps(input: PromptStepsInput): Promise<PromptStepsDto> {
    return this.#steps.get(JSON.stringify(input), async () => {
      const scope = await this.#scope(input)
      const { from = 0, until = MAX_STEP } = input
      const shown = await groupPassesOf(this.#db, scope, { from, until }, MAX_STEPS)
      return {
        earlier:
          shown.length < MAX_STEPS
            ? 0
            : await groupPassesBefore(this.#db, scope, { from, step: shown[0]!.step }),
        steps: shown.map(({ step, id, group_passes: { passes, bestOf } }) => {
          const counts = passes?.map(([n, passed, groups]) => ({ n, passed, groups })) ?? null
          const groups = { none: 0, some: 0, most: 0, all: 0 }
          let largest = 0
          for (const { n, passed, groups: more } of counts ?? []) {
            largest = Math.max(largest, n)
            const share = passed / n
            if (passed === 0) groups.none += more
            else if (passed === n) groups.all += more
            else if (share < 0.5) groups.some += more
            else groups.most += more
          }
          return {
            step,
            batchId: `b${id}`,
            groups: counts === null ? null : groups,
            passAt: counts && reportedK(largest).flatMap((k) => passAtK(counts, k) ?? []),
            bestOf: bestOf.map(([k, of, value]) => ({ k, groups: of, value })),
          }
        }),
      }
    })
  }

  /** @throws RewardOpsError `run_not_found`, `no_pass_rates` */
  async sample(input: PromptSampleInput): Promise<PromptSampleDto> {
    const scope = await this.#scope(input)
    const classes = await recentPasses(this.#db, scope, input.dataSource)
    if (classes.length === 0) {
      throw new RewardOpsError(
        'no_pass_rates',
        'The run has no prompts with a pass rate: no batch has ended yet, or only reward models score it.',
      )
    }
    const { keys, eligible } = await inPortions(drawPrompts(classes, input))
    const rows = await promptsOf(this.#db, scope, keys)
    const byPrefix = new Map(rows.map((row) => [row.key.slice(0, 2 * KEY_PREFIX_BYTES), row]))
    return {
      eligible,
      prompts: keys.flatMap((prefix) => {
        const row = byPrefix.get(prefix)
        if (row === undefined || row.recent_passed === null) return []
        return {
          key: row.key,
          promptId: row.prompt_id,
          dataSource: row.data_source,
          preview: row.preview,
          recentPassRate: row.recent_passed / row.recent_scored,
          lastStep: row.last_step,
        }
      }),
    }
  }

  async #scope({ run, split }: { run: string; split: string }): Promise<PromptScope> {
    const runId = await runIdOf(this.#db, run)
    if (runId === undefined) {
      throw runNotFound(run)
    }
    return { runId, split }
  }
}

function rowDto(row: PromptRow): PromptRowDto {
  const visits = decodeVisits(row.history)
  return {
    key: row.key,
    promptId: row.prompt_id,
    dataSource: row.data_source,
    preview: row.preview,
    class: row.class as PromptClass,
    visits: row.visits,
    scored: row.scored,
    passRate: row.passed === null ? null : row.passed / row.scored,
    mean: row.mean,
    recentPassRate: row.recent_passed === null ? null : row.recent_passed / row.recent_scored,
    recentMean: row.recent_mean,
    change: row.change,
    variedShare: row.varied / row.visits,
    lastStep: row.last_step,
    recent: visits
      .slice(-MAX_LISTED_VISITS)
      .map((visit) => ({ step: visit.step, rate: rateOf(visit) })),
  }
}

/** Returns the pass rate of a prompt or visit, or the mean score for reward models. */
function rateOf({ scored, passed, mean }: Pick<PromptRow, 'scored' | 'passed' | 'mean'>): number {
  return passed === null ? (mean ?? 0) : passed / scored
}

function readCursor(cursor: string): { sort: number | null; key: string } {
  try {
    const [sort, key] = JSON.parse(cursor) as [unknown, unknown]
    if (
      (sort === null || typeof sort === 'number') &&
      typeof key === 'string' &&
      /^[0-9a-f]{32}$/.test(key)
    ) {
      return { sort, key }
    }
  } catch {
    // Falls through to the error below.
  }
  throw new RewardOpsError('invalid_input', 'cursor: must be a nextCursor of prompts.list')
}
