import { MAX_STEP } from '../contract/fields.ts'
import type { ComponentDto, ComponentsDto, ComponentsInput } from '../contract/rewards.ts'
import type { Database } from '../store/database.ts'
import {
  type ComponentBatch,
  type ComponentStatsRow,
  componentBatches,
  componentStats,
  runsWithComponents,
} from '../store/sql/components.ts'

/** Maximum number of batches shown for a run or for a range of its steps. The newest ones are shown. */
const MAX_BATCHES = 200
const MAX_REMEMBERED = 4_000
/** Time budget of an answer; pages repeat the request for the rest. 5,000 samples take about 20 ms per component. */
const BUDGET_MS = 1_500

/** Exact figures of composite rewards' components by step. Each batch is summed once, at its first request. */
export class ComponentsView {
  readonly #db: Database
  readonly #sums = new Map<number, Promise<ComponentStatsRow[]>>()

  constructor(db: Database) {
    this.#db = db
  }

  /** The components of the given run, or of the newest run with components. */
  async get({ run: wanted, from = 0, until = MAX_STEP }: ComponentsInput): Promise<ComponentsDto> {
    const runs = await runsWithComponents(this.#db)
    const run = wanted ?? runs[0]
    if (run === undefined)
      return { runs, run: null, components: [], running: 0, pending: 0, hasMore: false }
    const found = await componentBatches(this.#db, { run, from, until }, MAX_BATCHES + 1)
    const batches = found.slice(0, MAX_BATCHES)
    const ended = batches.filter((batch) => batch.ended)
    const dueMs = performance.now() + BUDGET_MS
    const components = new Map<string, ComponentDto>()
    let pending = 0
    for (const batch of ended) {
      if (batch.sums !== null) {
        add(components, batch, batch.sums)
        continue
      }
      if (!this.#sums.has(batch.id) && performance.now() > dueMs) {
        pending++
        continue
      }
      add(components, batch, await this.#sumsOf(batch))
    }
    for (const { points } of components.values()) points.reverse()
    return {
      runs,
      run,
      components: [...components.values()],
      running: batches.length - ended.length,
      pending,
      hasMore: found.length > MAX_BATCHES,
    }
  }

  #sumsOf(batch: ComponentBatch): Promise<ComponentStatsRow[]> {
    const known = this.#sums.get(batch.id)
    if (known !== undefined) return known
    const sums = componentStats(
      this.#db,
      batch.id,
      weightsOf(batch).map(([name]) => name),
    )
    if (this.#sums.size >= MAX_REMEMBERED) this.#sums.clear()
    this.#sums.set(batch.id, sums)
    sums.catch(() => this.#sums.delete(batch.id))
    return sums
  }
}

/** The names and weights of the reward itself (`''`, no weight) and of its components. */
function weightsOf({ reward }: ComponentBatch): [name: string, weight: number | null][] {
  const { keys = [], weights = [] } = reward.gdpo ?? {}
  return [
    ['', null],
    ...(reward.components ?? []).map(({ name, weight }): [string, number] => [name, weight]),
    ...keys.map((key, at): [string, number] => [key, weights[at] ?? 1]),
  ]
}

function add(
  components: Map<string, ComponentDto>,
  batch: ComponentBatch,
  sums: readonly ComponentStatsRow[],
): void {
  for (const [name, weight] of weightsOf(batch)) {
    const sum = sums.find((one) => one.name === name)
    if (sum === undefined || sum.mean === null) continue
    let component = components.get(name)
    if (component === undefined) {
      component = { name, weight, points: [] }
      components.set(name, component)
    }
    const { n, mean, std } = sum
    component.points.push({ batchId: `b${batch.id}`, step: batch.step, n, mean, std, weight })
  }
}
