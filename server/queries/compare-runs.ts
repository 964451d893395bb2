import type { ComparedRunDto, CompareRunsDto, CompareRunsInput } from '../contract/compare.ts'
import { GROUP_SIGNALS, type GroupSignalCounts } from '../contract/group-signal.ts'
import { MAX_STEPS } from '../contract/runs.ts'
import { Memo } from '../memo.ts'
import { stepDeltas } from '../rewards/comparison/step-delta.ts'
import type { Database } from '../store/database.ts'
import { type RunColumns, runColumns, sourceSteps } from '../store/sql/compare.ts'

/** Time that a comparison of runs is cached. */
const TTL_MS = 1_000
/** Number of data sources compared, the largest ones. */
const MAX_SOURCES = 12

/** Compares runs by step, from their batches' roll-ups only. */
export class CompareRunsView {
  readonly #db: Database
  readonly #memo = new Memo<CompareRunsDto>(TTL_MS)

  constructor(db: Database) {
    this.#db = db
  }

  /** Compares runs with the first one; `missing` names unknown runs. */
  get(input: CompareRunsInput): Promise<CompareRunsDto> {
    const names = [...new Set(input.runs)]
    return this.#memo.get(JSON.stringify([names, input.split]), () =>
      this.#compute(names, input.split),
    )
  }

  async #compute(names: readonly string[], split: 'train' | 'val'): Promise<CompareRunsDto> {
    const columns: RunColumns[] = []
    // Runs are read one after the other, because eight concurrent reads would use all connections of the pages.
    for (const name of names) {
      const run = await runColumns(this.#db, name, split, MAX_STEPS)
      if (run !== undefined) columns.push(run)
    }
    const known = new Set(columns.map(({ name }) => name))
    const [first, ...others] = columns
    return {
      split,
      runs: columns.map(toRun),
      missing: names.filter((name) => !known.has(name)),
      deltas:
        first === undefined
          ? []
          : others.map((other) => ({
              run: other.name,
              steps: stepDeltas(stepsOf(first), stepsOf(other)),
            })),
      sources:
        first !== undefined && others.length === 1
          ? await this.#sources(first, others[0] as RunColumns)
          : [],
    }
  }

  async #sources(first: RunColumns, other: RunColumns): Promise<CompareRunsDto['sources']> {
    const steps = new Set(other.step)
    const shared = new Set(first.step.filter((step) => steps.has(step)))
    const stepOf = new Map<number, { isFirst: boolean; step: number }>()
    for (const run of [first, other]) {
      for (const [at, step] of run.step.entries()) {
        if (run.rolled_up[at] && shared.has(step))
          stepOf.set(run.batch[at] as number, { isFirst: run === first, step })
      }
    }
    const rows = await sourceSteps(this.#db, [...stepOf.keys()], MAX_SOURCES)
    const bySource = [...Map.groupBy(rows, ({ data_source }) => data_source)].map(
      ([name, points]) => {
        const side = (isFirst: boolean) =>
          points.flatMap((point) => {
            const at = stepOf.get(point.batch_id)
            return at?.isFirst === isFirst
              ? [{ ...point, step: at.step, batchId: `b${point.batch_id}` }]
              : []
          })
        const samples = points.reduce((sum, point) => sum + point.samples, 0)
        const steps = stepDeltas(side(true), side(false)).sort((a, b) => a.step - b.step)
        return { name, samples, steps }
      },
    )
    return bySource
      .filter(({ steps }) => steps.length > 0)
      .sort((a, b) => b.samples - a.samples || (a.name < b.name ? -1 : 1))
      .map(({ name, steps }) => ({ name, steps }))
  }
}

/** The figures of each step; null without a roll-up. */
function stepsOf(run: RunColumns) {
  return run.step.map((step, at) => {
    const isIn = run.rolled_up[at] === true
    return {
      step,
      batchId: `b${run.batch[at]}`,
      n: isIn ? (run.n[at] ?? 0) : null,
      mean: isIn ? (run.mean[at] ?? null) : null,
      std: isIn ? (run.std[at] ?? null) : null,
    }
  })
}

function toRun(run: RunColumns): ComparedRunDto {
  const steps = stepsOf(run)
  return {
    name: run.name,
    seeded: run.seeded,
    earlier: Math.max(0, run.steps - run.step.length),
    batchId: steps.map(({ batchId }) => batchId),
    step: run.step,
    n: steps.map(({ n }) => n),
    mean: steps.map(({ mean }) => mean),
    std: steps.map(({ std }) => std),
    quantiles: Array.from({ length: 5 }, (_, q) => run.quantiles.map((row) => row?.[q] ?? null)),
    failedShare: run.step.map((_, at) => {
      const failed = run.failed[at] as number
      const ended = failed + (run.scored[at] as number)
      return ended === 0 ? null : failed / ended
    }),
    noSignalShare: run.group_signals.map(noSignalShare),
    waitMs: run.wait_ms,
  }
}

function noSignalShare(counts: GroupSignalCounts | null): number | null {
  if (counts === null) return null
  const groups = GROUP_SIGNALS.reduce((sum, signal) => sum + counts[signal], 0)
  return groups === 0 ? null : 1 - counts.varied / groups
}
