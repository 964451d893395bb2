import { AsyncLocalStorage } from 'node:async_hooks'
import { createHash } from 'node:crypto'
import { type Job, PgBoss } from 'pg-boss'
import type { Logger } from '../log.ts'
import type { Client, Database, Statement } from './database.ts'

/** A chunk of samples to score: whole groups where they are known. Or scored groups, to be post-processed. */
export interface ChunkJob {
  /** Batch. */
  b: number
  /** Indexes, as flattened ranges: [from, to, from, to …], `to` included. */
  i: number[]
  /** When these samples were accepted, epoch milliseconds. */
  t: number
  /** Workers lost while holding them, before this job was made. */
  l?: number
  /** Groups to post-process, by number; then `i` is empty. */
  g?: number[]
  /** The samples of an interactive job in stored form, in the order of `i`. */
  s?: InlineSample[]
}

/** A sample to score, with its texts as sample_text keeps them. */
export interface InlineSample {
  idx: number
  data_source: string
  prompt: string | null
  response: string
  ground_truth: string | null
  extra_info: string | null
  encoding: number
  /** Length in tokens, if the trainer sent it. */
  response_length?: number | null
}

/** A job as a worker holds it: `retryCount` fences its completion to this very delivery. */
export type FetchedJob = Job<ChunkJob> & { retryCount: number }

/** Pools that exist without a reward model. */
export const RULES_POOL = 'rules'
export const INTERACTIVE_POOL = 'interactive'
/** User functions, and sums with one and without a model. */
export const FUNCTIONS_POOL = 'functions'
/** Rules that ask a service, and sums of rules. */
export const SERVICES_POOL = 'services'

/** The pool of a reward model: its name shortened to what a queue may be called, and a hash to keep it unique. */
export function poolOfModel(model: string): string {
  return poolNamed('rm', model)
}

/** The pool of a limiter of manager `rate_limited`. */
export function poolOfLimiter(limiter: string): string {
  return poolNamed(LIMITERS, limiter)
}

/** Whether a pool is a limiter's. */
export function isPoolOfLimiter(pool: string): boolean {
  return pool.startsWith(`${LIMITERS}-`)
}

const LIMITERS = 'limit'

function poolNamed(kind: string, name: string): string {
  const slug = name.replace(/[^\w.-]+/g, '-').slice(0, 40)
  return `${kind}-${slug}-${createHash('sha256').update(name).digest('hex').slice(0, 8)}`
}

/** Expands a job's ranges. */
export function indexesOf(job: ChunkJob): number[] {
  const out: number[] = []
  for (let k = 0; k < job.i.length; k += 2) {
    for (let i = job.i[k] as number; i <= (job.i[k + 1] as number); i++) out.push(i)
  }
  return out
}

/** Indexes in ascending order as flattened ranges. */
export function toRanges(indexes: readonly number[]): number[] {
  const out: number[] = []
  for (const i of indexes) {
    if (out.length > 0 && out[out.length - 1] === i - 1) out[out.length - 1] = i
    else out.push(i, i)
  }
  return out
}

/**
 * pg-boss as this service uses it: a queue per pool, jobs that end by missed heartbeats and never by age.
 * - expiry at its maximum of 24 h, retry limit high: a job is given up only by us (`worker_lost`)
 * - heartbeat 10 s, its least; looked at every second by the server (`supervise`)
 * - wake-ups are our own notification `q<pool>`, since pg-boss's exist only in `work()`
 */
export class JobQueue {
  readonly #boss: PgBoss
  /**
   * The connection of the transaction under way. pg-boss looks up queues that it does not know yet; a second connection
   * for that would wait for ever where every connection of the pool is in such a transaction.
   */
  readonly #caller = new AsyncLocalStorage<Client>()
  readonly #known = new Set<string>()
  readonly #names = new Map<string, string>()

  constructor(database: Database, log: Logger, options: { supervise: boolean }) {
    this.#boss = new PgBoss({
      db: {
        // Without values Postgres takes several statements at once, which pg-boss's migrations are.
        executeSql: async (text, values) => {
          const session = this.#caller.getStore() ?? database.pool
          return values && values.length > 0
            ? session.query({ name: this.#nameOf(text), text, values: values as unknown[] })
            : session.query(text)
        },
      },
      schema: 'pgboss',
      // The sweep does it, when no worker that was cut off would lose its jobs by it.
      supervise: false,
      schedule: false,
      migrate: options.supervise,
      createSchema: options.supervise,
      superviseIntervalSeconds: 1,
      monitorIntervalSeconds: 1,
      maintenanceIntervalSeconds: 60,
      persistWarnings: false,
    })
    this.#boss.on('error', (error: Error) => log.warn({ err: error.message }, 'queue error'))
    this.#boss.on('warning', (w) => log.debug({ warning: w.message }, 'queue warning'))
  }

  /** A name for a statement that will come again: fetching is planned once a connection, not once a fetch (1 ms). */
  #nameOf(text: string): string | undefined {
    let name = this.#names.get(text)
    if (name === undefined && this.#names.size < 300) {
      name = `boss-${this.#names.size}`
      this.#names.set(text, name)
    }
    return name
  }

  /** Returns jobs whose heartbeat lapsed to their queues, and removes old ones. */
  async supervise(): Promise<void> {
    await this.#boss.supervise()
  }

  async start(): Promise<void> {
    await this.#boss.start()
  }

  async stop(): Promise<void> {
    await this.#boss.stop({ graceful: false, close: false } as never)
  }

  /** Creates a pool's queue when it is new; safe to call again. */
  async ensure(pool: string): Promise<void> {
    if (this.#known.has(pool)) return
    if (!(await this.#boss.getQueue(pool))) {
      await this.#boss.createQueue(pool, {
        retryLimit: 1_000,
        retryDelay: 0,
        expireInSeconds: 86_400 - 1,
        heartbeatSeconds: 10,
        retentionSeconds: 30 * 86_400,
        deleteAfterSeconds: 60,
      })
    }
    this.#known.add(pool)
  }

  /** Inserts chunks within the caller's transaction and wakes the workers when it commits. */
  async insert(
    pool: string,
    jobs: ChunkJob[],
    options: {
      run: string
      priority: number
      client: Client
    },
  ): Promise<void> {
    if (jobs.length === 0) return
    await this.#caller.run(options.client, () =>
      this.#boss.insert(
        pool,
        jobs.map((data) => ({ data, priority: options.priority, group: { id: options.run } })),
      ),
    )
    await options.client.query("select pg_notify('rewardops', $1)", [`q${pool}`])
  }

  /** The statements that {@link insert} would send, for a caller that sends them with others and wakes the workers itself. */
  async insertStatements(
    pool: string,
    jobs: ChunkJob[],
    options: { run: string; priority: number },
  ): Promise<Statement[]> {
    const statements: Statement[] = []
    const db = {
      executeSql: async (text: string, values: unknown[] = []) => {
        statements.push({ name: this.#nameOf(text), text, values })
        return { rows: [] }
      },
    }
    await this.#boss.insert(
      pool,
      jobs.map((data) => ({ data, priority: options.priority, group: { id: options.run } })),
      { db },
    )
    return statements
  }

  /** Takes up to `count` jobs, none of the runs in `ignoreRuns`. */
  async fetch(pool: string, count: number, ignoreRuns: string[]): Promise<FetchedJob[]> {
    const jobs = await this.#boss.fetch<ChunkJob>(pool, {
      batchSize: count,
      ...(ignoreRuns.length > 0 ? { ignoreGroups: ignoreRuns } : {}),
    })
    return jobs as unknown as FetchedJob[]
  }

  /** Sends the heartbeats of these jobs. */
  async touch(pool: string, jobs: { id: string; retryCount: number }[]): Promise<void> {
    if (jobs.length > 0) await this.#boss.touch(pool, jobs)
  }

  /** Ends jobs, within the caller's transaction if one is given. Returns how many were still held under this delivery. */
  async complete(
    pool: string,
    jobs: { id: string; retryCount: number }[],
    client?: Client,
  ): Promise<number> {
    if (jobs.length === 0) return 0
    const complete = () => this.#boss.complete(pool, jobs, null)
    const response = await (client ? this.#caller.run(client, complete) : complete())
    // pg-boss's types leave out what the response holds.
    return (response as unknown as { affected: number }).affected
  }

  /** Gives jobs back at once: their next delivery counts one lost worker more. */
  async requeue(pool: string, ids: string[]): Promise<void> {
    if (ids.length > 0) await this.#boss.fail(pool, ids)
  }
}
