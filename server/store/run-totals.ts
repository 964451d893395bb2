import type { Database } from './database.ts'

/** Maximum number of runs with metric series of their own; the others are counted together. */
export const MAX_METRIC_RUNS = 50
/** A run without pending samples counts as active for this long after its last activity. */
const ACTIVE_MS = 3_600_000
/** Number of a run's newest batches that are searched for the last batch of each split. */
const MAX_RECENT_BATCHES = 256
/** The value of the metric label `run` for the runs without series of their own. */
export const OTHER_RUNS = 'other'

/** Ended and pending samples of one or several runs, and their completed groups. */
export interface RunCounts {
  pending: number
  scored: number
  failed: number
  groups: number
}

/** The last completed batch of a run and split, without rescored ones. */
export interface LastBatch {
  run: string
  split: string
  step: number
  mean: number | null
  /** Share of no-signal groups; null if there are no groups. */
  noSignal: number | null
  /** Time from the acceptance until the last sample was scored or failed. */
  seconds: number
}

export interface RunFigures {
  active: number
  /** Counts by run name. The entry {@link OTHER_RUNS} covers all runs without their own entry. */
  counts: ReadonlyMap<string, RunCounts>
  lastBatches: readonly LastBatch[]
}

/** Counts over those batches of a run that have the same status and the same value of `settled`. */
export interface RunBatchesRow extends RunCounts {
  run_id: number
  settled: boolean
  /** Time since a sample was last accepted or a batch last ended. */
  age_ms: number
}

interface Totals extends RunCounts {
  /** Time when a sample was last accepted or a batch last ended, by `performance.now`. */
  atMs: number
}

/**
 * Counts batches by run. A run is reported if it has pending samples, or if a sample was accepted or a batch ended
 * within the last hour. Only the newest {@link MAX_METRIC_RUNS} of these runs are reported by name, which limits the
 * number of series.
 */
export class RunTotals {
  readonly #db: Database
  readonly #settled = new Map<number, Totals>()
  /** Counts at the last reading; null before the first. */
  #last: ReadonlyMap<number, Totals> | null = null
  /**
   * Counters of the runs that had no series of their own when their samples were counted. A sum over the runs that have
   * no series now would decrease when one of them gets its own series.
   */
  readonly #other = noCounts()

  constructor(db: Database) {
    this.#db = db
  }

  /**
   * Adds the counts of `rows` and returns the figures of all runs. Each settled batch is passed only once, so its
   * counts are kept.
   */
  async read(rows: readonly RunBatchesRow[]): Promise<RunFigures> {
    for (const row of rows) if (row.settled) addTo(this.#settled, row)
    const totals = new Map([...this.#settled].map(([id, one]) => [id, { ...one }]))
    for (const row of rows) if (!row.settled) addTo(totals, row)
    this.#keepRemoved(totals)
    const active = [...totals]
      .filter(([, { atMs, pending }]) => pending > 0 || atMs > performance.now() - ACTIVE_MS)
      .sort(([, a], [, b]) => b.atMs - a.atMs)
      .map(([id]) => id)
    const newest = active.slice(0, MAX_METRIC_RUNS)
    const names = await this.#names(newest)
    const other = { ...this.#other, pending: 0 }
    const counts = new Map([[OTHER_RUNS, other]])
    for (const [id, now] of totals) {
      const name = names.get(id)
      if (name !== undefined) counts.set(name, now)
      else if (this.#last !== null) this.#addOther(this.#last.get(id), now, other)
      else other.pending += now.pending
    }
    this.#last = totals
    return {
      active: active.length,
      counts,
      lastBatches: await this.#lastBatches([...names.keys()]),
    }
  }

  /** Counts batches that were removed before they were settled, because a counter must not decrease. */
  #keepRemoved(totals: Map<number, Totals>): void {
    for (const [id, before] of this.#last ?? []) {
      const removed = { ...noCounts(), atMs: before.atMs }
      for (const key of ['scored', 'failed', 'groups'] as const) {
        removed[key] = Math.max(0, before[key] - (totals.get(id)?.[key] ?? 0))
      }
      if (removed.scored + removed.failed + removed.groups === 0) continue
      for (const to of [totals, this.#settled]) add(to, id, removed)
    }
  }

  #addOther(before: Totals | undefined, now: Totals, other: RunCounts): void {
    for (const key of ['scored', 'failed', 'groups'] as const) {
      this.#other[key] += Math.max(0, now[key] - (before?.[key] ?? 0))
      other[key] = this.#other[key]
    }
    other.pending += now.pending
  }

  /** Names by id. A run named {@link OTHER_RUNS} is left out, so it is counted with the other runs. */
  async #names(ids: number[]): Promise<Map<number, string>> {
    if (ids.length === 0) return new Map()
    const rows = await this.#db.rows<{ id: number; name: string }>(
      'metrics-run-names',
      'select id, name from run where id = any($1) and name <> $2',
      [ids, OTHER_RUNS],
    )
    return new Map(rows.map(({ id, name }) => [id, name]))
  }

  async #lastBatches(ids: number[]): Promise<LastBatch[]> {
    if (ids.length === 0) return []
    return this.#db.rows<LastBatch>(
      'metrics-run-batches',
      `select run.name as run, last.split, last.step, last.mean, signals.no_signal as "noSignal",
              extract(epoch from last.completed_at - last.submitted_at)::float8 as seconds
       from run cross join lateral (
         select distinct on (split) * from (
           select * from batch where run_id = run.id order by id desc limit ${MAX_RECENT_BATCHES}) recent
         where status = 'completed' and rolled_up and rescored_from is null
         order by split, id desc) last
       left join lateral (
         select (sum(value::int) filter (where key <> 'varied'))::float8 / nullif(sum(value::int), 0) as no_signal
         from jsonb_each_text(last.group_signals)) signals on true
       where run.id = any($1)`,
      [ids],
    )
  }
}

function noCounts(): RunCounts {
  return { pending: 0, scored: 0, failed: 0, groups: 0 }
}

function addTo(totals: Map<number, Totals>, row: RunBatchesRow): void {
  add(totals, row.run_id, {
    ...{ pending: row.pending ?? 0, scored: row.scored, failed: row.failed, groups: row.groups },
    atMs: performance.now() - row.age_ms,
  })
}

function add(totals: Map<number, Totals>, id: number, more: Totals): void {
  const sum = totals.get(id) ?? { ...noCounts(), atMs: Number.NEGATIVE_INFINITY }
  totals.set(id, sum)
  for (const key of ['pending', 'scored', 'failed', 'groups'] as const) sum[key] += more[key]
  sum.atMs = Math.max(sum.atMs, more.atMs)
}
