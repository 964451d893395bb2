import pg from 'pg'
import type { Logger } from '../log.ts'

export type Client = pg.PoolClient

/** A statement to be sent; a name has it planned once a connection. */
export interface Statement {
  name: string | undefined
  text: string
  values: unknown[]
}

/** SQLSTATE classes and socket errors after which the same statement may be sent again on a new connection. */
const LOST = new Set([
  'ECONNREFUSED',
  'ECONNRESET',
  'EPIPE',
  'ENOENT',
  'ETIMEDOUT',
  '57P01',
  '57P02',
  '57P03',
  '08000',
  '08003',
  '08006',
  '53300',
])

/** Whether an error means that the database went away (or is coming up), not that the statement was wrong. */
export function isConnectionLoss(error: unknown): boolean {
  const e = error as { code?: string; message?: string } | null
  if (!e) return false
  if (e.code && LOST.has(e.code)) return true
  return /Connection terminated|connection timeout|Client has encountered a connection error|not queryable|timeout exceeded when trying to connect/i.test(
    e.message ?? '',
  )
}

/** Deadlock and serialisation failures: the transaction did nothing and may be repeated. */
export function isRetryableConflict(error: unknown): boolean {
  const code = (error as { code?: string } | null)?.code
  return code === '40P01' || code === '40001'
}

/** Runs `work` in a transaction on a connection that is in hand; rolled back when it throws. */
export async function inTransaction<T>(client: pg.ClientBase, work: () => Promise<T>): Promise<T> {
  await client.query('begin')
  try {
    const result = await work()
    await client.query('commit')
    return result
  } catch (error) {
    // The first error says what was wrong; one of the rollback only that the connection is gone as well.
    if (!isConnectionLoss(error)) await client.query('rollback').catch(() => {})
    throw error
  }
}

/** One pool of connections; hot statements are named, so Postgres plans them once a connection. */
export class Database {
  readonly pool: pg.Pool
  readonly url: string
  readonly #log: Logger
  readonly #options: pg.PoolConfig
  /** Connections whose statements need not wait for one another; opened when first needed. */
  #pipelined: pg.Pool | null = null

  constructor(
    url: string,
    log: Logger,
    options: {
      max: number
      name: string
      statementTimeoutMs?: number
      /** Every statement is a lookup by key; the planner must not conclude otherwise from old statistics. */
      keyed?: boolean
      /**
       * Commits do not wait for the disk, except where a statement asks for it itself, as writing results does: what a
       * worker notes for itself (jobs taken, heartbeats) may be lost in a crash, it would be done again anyway.
       */
      lazyCommits?: boolean
    },
  ) {
    this.url = url
    this.#log = log
    this.#options = {
      connectionString: url,
      max: options.max,
      application_name: options.name,
      connectionTimeoutMillis: 10_000,
      idleTimeoutMillis: 60_000,
      ...(options.statementTimeoutMs ? { statement_timeout: options.statementTimeoutMs } : {}),
      options: [
        ...(options.keyed
          ? [
              'enable_seqscan=off',
              'enable_hashjoin=off',
              'enable_mergejoin=off',
              'plan_cache_mode=force_generic_plan',
            ]
          : []),
        ...(options.lazyCommits ? ['synchronous_commit=off'] : []),
      ]
        .map((setting) => `-c ${setting}`)
        .join(' '),
    }
    this.pool = new pg.Pool(this.#options)
    // Without a listener a killed Postgres would take the process down with it.
    this.pool.on('error', (error) =>
      log.warn({ err: error.message }, 'idle database connection lost'),
    )
  }

  /** Runs a named statement and gives its rows. */
  async rows<T>(name: string, text: string, values: unknown[] = []): Promise<T[]> {
    return (await this.pool.query({ name, text, values })).rows as T[]
  }

  /** Runs an unnamed statement: for those whose text depends on the question. */
  async adhoc<T>(text: string, values: unknown[] = []): Promise<T[]> {
    return (await this.pool.query(text, values)).rows as T[]
  }

  /** Runs `work` in one transaction; rolled back when it throws. */
  async transaction<T>(work: (client: Client) => Promise<T>): Promise<T> {
    return this.#lend(
      (client) => inTransaction(client, () => work(client)),
      // What could not be rolled back is for nobody else to find.
      (error, client) => isConnectionLoss(error) || client.getTransactionStatus() !== 'I',
    )
  }

  /** Runs `work` on a connection of its own. One on which something failed is closed, and what it holds is let go. */
  async holding<T>(work: (client: Client) => Promise<T>): Promise<T> {
    return this.#lend(work, () => true)
  }

  /** `isBroken`: whether after this error the connection is closed, not used again. */
  async #lend<T>(
    work: (client: Client) => Promise<T>,
    isBroken: (error: unknown, client: Client) => boolean,
  ): Promise<T> {
    const client = await this.pool.connect()
    let broken: Error | undefined
    const onError = (error: Error) => {
      broken = error
    }
    client.on('error', onError)
    try {
      return await work(client)
    } catch (error) {
      if (isBroken(error, client)) broken ??= error as Error
      throw error
    } finally {
      client.off('error', onError)
      client.release(broken)
    }
  }

  /**
   * Runs statements in one transaction, all sent before the first answer: one round trip instead of one each. None may
   * need another's answer. Throws the first failure; then nothing happened.
   */
  async atOnce(statements: Statement[]): Promise<void> {
    this.#pipelined ??= this.#openPipelined()
    const client = await this.#pipelined.connect()
    const sent = [
      client.query('begin'),
      ...statements.map((s) => client.query(s)),
      client.query('commit'),
    ]
    const settled = await Promise.allSettled(sent)
    const failure = settled.find((s) => s.status === 'rejected')?.reason as Error | undefined
    client.release(failure !== undefined && isConnectionLoss(failure) ? failure : undefined)
    if (failure) throw failure
  }

  #openPipelined(): pg.Pool {
    const pool = new pg.Pool({ ...this.#options, max: 4, pipeline: true } as pg.PoolConfig)
    pool.on('error', (error) =>
      this.#log.warn({ err: error.message }, 'idle database connection lost'),
    )
    return pool
  }

  async close(): Promise<void> {
    await Promise.all([this.pool.end(), this.#pipelined?.end()])
  }
}

/**
 * Repeats `work` while the database is away, for at most `forMs`; other errors are thrown at once.
 * Only for work that may be done twice.
 */
export async function throughOutage<T>(
  work: () => Promise<T>,
  options: { forMs: number; signal?: AbortSignal },
): Promise<T> {
  const until = performance.now() + options.forMs
  for (let delayMs = 50; ; delayMs = Math.min(1_000, delayMs * 2)) {
    try {
      return await work()
    } catch (error) {
      const passing = isConnectionLoss(error) || isRetryableConflict(error)
      if (!passing || performance.now() + delayMs > until || options.signal?.aborted) throw error
      await new Promise((resolve) => setTimeout(resolve, delayMs))
    }
  }
}
