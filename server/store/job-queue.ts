import { AsyncLocalStorage } from 'node:async_hooks'
import { createHash } from 'node:crypto'
import type { ClientBase } from 'pg'
import { type Job, PgBoss } from 'pg-boss'
import type { Logger } from '../log.ts'
import { notify } from './channels.ts'
import type { Client, Database, Statement } from './database.ts'

/** A job: samples to score, in whole groups if the groups are known, or scored groups to post-process. */
export interface ChunkJob {
  /** Id of the batch. */
  b: number
  /** Indexes of the samples, as flattened ranges: [from, to, from, to …], `to` included. */
  i: number[]
  /** Time when these samples were accepted, epoch ms. */
  t: number
  /** Number of workers that died while they held these samples, before this job was created. */
  l?: number
  /** Numbers of the groups to post-process; `i` is then empty. */
  g?: number[]
  /** The samples of an interactive job in stored form, in the order of `i`. */
  s?: InlineSample[]
}

/** A sample to score, with its texts as stored in sample_text. */
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

/** A fetched job. `retryCount` identifies this delivery: a completion with an older number has no effect. */
export type FetchedJob = Job<ChunkJob> & { retryCount: number }

/** The pool for rules that run on the worker's event loop. */
export const RULES_POOL = 'rules'
/** The pool for samples of implicit batches, which have a waiting caller. */
export const INTERACTIVE_POOL = 'interactive'
/** The pool for custom functions, and for composite rewards that contain a function but no reward model. */
export const FUNCTIONS_POOL = 'functions'
/** The pool for rules that call a service, and for composite rewards that consist of rules. */
export const SERVICES_POOL = 'services'

/**
 * The pool for rules that run programs in the sandbox beside the worker. The table `pool` does not contain this pool,
 * because all workers, even those without a sandbox, serve the pools in that table.
 */
export const SANDBOX_POOL = 'sandbox'

/** The name of a reward model's pool: the model's name, shortened to a valid queue name, and a hash for uniqueness. */
export function poolOfModel(model: string): string {
  return poolNamed('rm', model)
}

/** The pool of a limiter of the reward manager `rate_limited`. */
export function poolOfLimiter(limiter: string): string {
  return poolNamed(LIMITERS, limiter)
}

export function isPoolOfLimiter(pool: string): boolean {
  return pool.startsWith(`${LIMITERS}-`)
}

const LIMITERS = 'limit'

function poolNamed(kind: string, name: string): string {
  const slug = name.replace(/[^\w.-]+/g, '-').slice(0, 40)
  return `${kind}-${slug}-${createHash('sha256').update(name).digest('hex').slice(0, 8)}`
}

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
 * pg-boss as this service uses it: one queue per pool. Jobs are redelivered after missed heartbeats, never because of
 * their age.
 * - Expiry is at its maximum of 24 h and the retry limit is high: only this service gives up a job (`worker_lost`).
 * - A job is redelivered after 10 s without a heartbeat, pg-boss's minimum. The server checks this every second
 * (`supervise`).
 * - Workers are woken by notifications `q<pool>`, because pg-boss wakes only the callers of `work()`.
 */
export class JobQueue {
  readonly #boss: PgBoss
  /**
   * The connection of the running transaction, on which pg-boss also looks up queues that it does not know yet. A
   * second connection for that lookup would wait forever if such transactions held the whole pool.
   */
  readonly #caller = new AsyncLocalStorage<ClientBase>()
  readonly #known = new Set<string>()
  readonly #names = new Map<string, string>()

  constructor(database: Database, log: Logger, options: { supervise: boolean }) {
    this.#boss = new PgBoss({
      db: {
        // pg-boss's migrations are several statements in one query. Postgres accepts these only without parameters.
        executeSql: async (text, values) => {
          const session = this.#caller.getStore() ?? database.pool
          return values && values.length > 0
            ? session.query({ name: this.#nameOf(text), text, values: values as unknown[] })
            : session.query(text)
        },
      },
      schema: 'pgboss',
      // The sweep calls `supervise`, except after an outage, when disconnected workers may still hold jobs.
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

  /** A name for a repeated statement, so that Postgres plans the statement once per connection. Planning takes 1 ms. */
  #nameOf(text: string): string | undefined {
    let name = this.#names.get(text)
    if (name === undefined && this.#names.size < 300) {
      name = `boss-${this.#names.size}`
      this.#names.set(text, name)
    }
    return name
  }

  /** Returns jobs with missed heartbeats to their queues and removes old jobs. */
  async supervise(): Promise<void> {
    await this.#boss.supervise()
  }

  async start(): Promise<void> {
    await this.#boss.start()
  }

  async stop(): Promise<void> {
    await this.#boss.stop({ graceful: false, close: false } as never)
  }

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

  /** Inserts jobs within the caller's transaction and wakes the workers at its commit. */
  async insert(
    pool: string,
    jobs: ChunkJob[],
    options: {
      run: string
      priority: number
      client: ClientBase
    },
  ): Promise<void> {
    if (jobs.length === 0) return
    await this.#caller.run(options.client, () =>
      this.#boss.insert(
        pool,
        jobs.map((data) => ({ data, priority: options.priority, group: { id: options.run } })),
      ),
    )
    await notify(options.client, 'jobsQueued', pool)
  }

  /**
   * The statements of {@link insert}, for a caller that sends them together with other statements and wakes the workers
   * itself.
   */
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

  /**
   * Completes jobs, in the caller's transaction if one is given. Returns the number of jobs that still belonged to this
   * delivery.
   */
  async complete(
    pool: string,
    jobs: { id: string; retryCount: number }[],
    client?: Client,
  ): Promise<number> {
    if (jobs.length === 0) return 0
    const complete = () => this.#boss.complete(pool, jobs, null)
    const response = await (client ? this.#caller.run(client, complete) : complete())
    // pg-boss's types omit the fields of the response.
    return (response as unknown as { affected: number }).affected
  }

  /** Requeues jobs immediately. Their next delivery counts one more lost worker. */
  async requeue(pool: string, ids: string[]): Promise<void> {
    if (ids.length > 0) await this.#boss.fail(pool, ids)
  }
}
