import type { Database } from './database.ts'
import { SANDBOX_POOL } from './job-queue.ts'
import { type RunBatchesRow, type RunFigures, RunTotals } from './run-totals.ts'

/** A registered server's labels and limits. */
export interface ServerFigures {
  id: number
  name: string
  model: string
  engine: string
  state: string
  /** Verdict of the last self-test; null before the first. */
  verdict: string | null
  max_in_flight: number | null
  max_concurrent: number | null
  lease_slots: number
}

/** Counts of calls to a server, from the first minute that the {@link MetricsReader} has read. */
export interface CallFigures {
  requests: number
  retries: number
  errors: number
  hedges: number
  busy: number
  corrupt: number
  client: number
  tokens: number
  /** Counts in the router's latency buckets. */
  latency: number[]
}

export interface BatchFigures {
  /** Number of batches by status. */
  batches: Map<string, number>
  pending: number
  scored: number
  failed: number
  groups: number
}

export interface WorkerFigures {
  id: number
  stats: Record<string, unknown>
}

/** Jobs of a pool, by state: `queued` or `active`. */
export interface QueueFigures {
  pool: string
  state: string
  jobs: number
}

export interface Figures {
  servers: ServerFigures[]
  calls: Map<number, CallFigures>
  workers: WorkerFigures[]
  batches: BatchFigures
  runs: RunFigures
  queues: QueueFigures[]
}

export const NO_FIGURES: Figures = {
  servers: [],
  calls: new Map(),
  workers: [],
  batches: emptyBatches(),
  runs: { active: 0, counts: new Map(), lastBatches: [] },
  queues: [],
}

interface BatchRow extends RunBatchesRow {
  status: string
  edge: number
  batches: number
}

interface MinuteRow extends CallFigures {
  server_id: number
  settled: boolean
}

const COUNTS = [
  'requests',
  'retries',
  'errors',
  'hedges',
  'busy',
  'corrupt',
  'client',
  'tokens',
] as const

/**
 * Reads the figures of the metrics. Finished batches and minutes are counted once, so the cost of a scrape depends on
 * the current activity, not on the length of the history.
 */
export class MetricsReader {
  readonly #db: Database
  #reading: Promise<Figures> | null = null
  #settledBatches = emptyBatches()
  /** Counts at the last reading. */
  #lastBatches = emptyBatches()
  readonly #runs: RunTotals
  /** Batches below this id are not read: `#settledBatches` and the settled counts of `#runs` include them. */
  #fromBatch = 0
  readonly #settledCalls = new Map<number, CallFigures>()
  /** Minutes before this one are not read: they are already in `#settledCalls` or precede the reader. */
  #fromMinute: Date | null

  /** Counters of calls begin with the minute `from`, or if it is null, with the minute of {@link begin}. */
  constructor(db: Database, from: Date | null = null) {
    this.#db = db
    this.#runs = new RunTotals(db)
    this.#fromMinute = from
  }

  /**
   * Starts the counters of calls, unless they have already started. If this call fails, the next reading starts them.
   * @throws when the database does not answer
   */
  async begin(): Promise<Date> {
    const minute = "select date_trunc('minute', now()) as at"
    this.#fromMinute ??= (await this.#db.adhoc<{ at: Date }>(minute))[0]!.at
    return this.#fromMinute
  }

  /** Reads the current figures; concurrent callers share one reading. @throws when the database does not answer */
  read(): Promise<Figures> {
    this.#reading ??= this.#read().finally(() => {
      this.#reading = null
    })
    return this.#reading
  }

  async #read(): Promise<Figures> {
    return {
      servers: await this.#servers(),
      calls: await this.#calls(),
      workers: await this.#db.rows<WorkerFigures>(
        'metrics-workers',
        `select id, stats from process where role = 'worker' and state = 'alive' and last_seen_at > now() - interval '5 seconds' order by id`,
      ),
      ...(await this.#batches()),
      queues: await this.#db.rows<QueueFigures>(
        'metrics-queues',
        `select p.name as pool, s.state, count(j.name)::int as jobs
         from (select name from pool union all select '${SANDBOX_POOL}') p cross join (values ('queued'), ('active')) s (state)
         left join pgboss.job j on j.name = p.name
           and case s.state when 'active' then j.state = 'active' else j.state < 'active' end
         group by 1, 2 order by 1, 2`,
      ),
    }
  }

  #servers(): Promise<ServerFigures[]> {
    return this.#db.rows<ServerFigures>(
      'metrics-servers',
      `select id, name, model, engine, state, self_test->>'verdict' as verdict, max_in_flight, max_concurrent,
         (select coalesce(sum(slots), 0)::int from lease
          where resource = 'server:' || server.id and expires_at > clock_timestamp()) as lease_slots
       from server where removed_at is null order by id`,
    )
  }

  /**
   * Reads only the minutes from `#fromMinute` on, because adding up a year of histograms would delay a scrape too long.
   */
  async #calls(): Promise<Map<number, CallFigures>> {
    const from = await this.begin()
    // A minute still receives calls for a moment after its end.
    const [clock] = await this.#db.adhoc<{ at: Date }>(
      "select date_trunc('minute', now() - interval '1 minute') as at",
    )
    const upTo = new Date(Math.max(clock!.at.getTime(), from.getTime()))
    const rows = await this.#db.rows<MinuteRow>(
      'metrics-minutes',
      `select m.server_id, m.minute < $2 as settled, m.requests, m.retries, m.errors, m.hedges, m.busy, m.corrupt, m.client,
              m.tokens::float8 as tokens, m.latency_ms as latency
       from server s join server_minute m on m.server_id = s.id and m.minute >= $1
       where s.removed_at is null`,
      [from, upTo],
    )
    for (const row of rows) if (row.settled) addTo(this.#settledCalls, row)
    this.#fromMinute = upTo
    const calls = new Map<number, CallFigures>()
    for (const [id, settled] of this.#settledCalls) addTo(calls, { ...settled, server_id: id })
    for (const row of rows) if (!row.settled) addTo(calls, row)
    return calls
  }

  async #batches(): Promise<Pick<Figures, 'batches' | 'runs'>> {
    const rows = await this.#db.rows<BatchRow>(
      'metrics-batches',
      // A batch is settled ten minutes after its end. Lower ids are then never read again, and a batch with a lower id
      // may be committed later than a batch with a higher id.
      `with edge as (
         select coalesce(
           (select min(id) from batch where id >= $1
              and (completed_at is null or completed_at > now() - interval '10 minutes')),
           (select max(id) + 1 from batch), $1) as id)
       select status, batch.id < edge.id as settled, edge.id as edge, run_id, count(*)::int as batches,
              extract(epoch from now() - max(greatest(last_append_at, completed_at)))::float8 * 1000 as age_ms,
              (sum(samples - scored - failed) filter (where status in ('open', 'running')))::float8 as pending,
              sum(scored)::float8 as scored, sum(failed)::float8 as failed, sum(groups_completed)::float8 as groups
       from batch, edge where batch.id >= $1 group by 1, 2, 3, 4`,
      [this.#fromBatch],
    )
    for (const row of rows) if (row.settled) addBatches(this.#settledBatches, row)
    this.#fromBatch = rows[0]?.edge ?? this.#fromBatch
    const all = emptyBatches()
    for (const [status, n] of this.#settledBatches.batches) all.batches.set(status, n)
    for (const key of ['scored', 'failed', 'groups'] as const) {
      all[key] = this.#settledBatches[key]
    }
    for (const row of rows) if (!row.settled) addBatches(all, row)
    // Batches that were removed before they were settled stay counted: a counter must not decrease.
    for (const key of ['scored', 'failed', 'groups'] as const) {
      const removed = Math.max(0, this.#lastBatches[key] - all[key])
      this.#settledBatches[key] += removed
      all[key] += removed
    }
    this.#lastBatches = all
    return { batches: all, runs: await this.#runs.read(rows) }
  }
}

function emptyBatches(): BatchFigures {
  return { batches: new Map(), pending: 0, scored: 0, failed: 0, groups: 0 }
}

function addBatches(to: BatchFigures, row: BatchRow): void {
  to.batches.set(row.status, (to.batches.get(row.status) ?? 0) + row.batches)
  to.pending += row.pending ?? 0
  to.scored += row.scored
  to.failed += row.failed
  to.groups += row.groups
}

function addTo(calls: Map<number, CallFigures>, row: CallFigures & { server_id: number }): void {
  const sum = calls.get(row.server_id) ?? {
    requests: 0,
    retries: 0,
    errors: 0,
    hedges: 0,
    busy: 0,
    corrupt: 0,
    client: 0,
    tokens: 0,
    latency: [],
  }
  calls.set(row.server_id, sum)
  for (const key of COUNTS) sum[key] += row[key]
  row.latency.forEach((n, i) => {
    sum.latency[i] = (sum.latency[i] ?? 0) + n
  })
}
