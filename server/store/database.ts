import type pg from 'pg'
import { RewardOpsError } from '../errors.ts'
import type { Logger } from '../log.ts'
import { USE_FUNCTIONS } from './functions.ts'
import { SecretBox } from './secret-box.ts'
import { isFatal, isTooManyConnections, SessionPool, type SessionSettings } from './session.ts'

export type Client = pg.PoolClient

export interface Statement {
  /** With a name, Postgres plans the statement once per connection. */
  name: string | undefined
  text: string
  values: unknown[]
}

/** SQLSTATEs and socket errors after which an idempotent statement may be retried on a new connection. */
const LOST = new Set([
  'ECONNREFUSED',
  'ECONNRESET',
  'ECONNABORTED',
  'EPIPE',
  'ENOENT',
  'ETIMEDOUT',
  'EHOSTUNREACH',
  'EHOSTDOWN',
  'ENETUNREACH',
  'ENETDOWN',
  'ENOTFOUND',
  'EAI_AGAIN',
  '57P01',
  '57P02',
  '57P03',
  '08000',
  '08003',
  '08006',
  '53300',
])

/**
 * Messages with code 08P01 that mean that the client will never be accepted. PgBouncer also sends this code while
 * Postgres starts, with "the database system is starting up" or "server login has been failing".
 */
const NEVER_ACCEPTED =
  /unsupported (startup|frontend)|startup packet|no such (user|database)|user name|password|authentication|SASL|SSL|TLS|not allowed/i

/** Whether an error means that the database is unreachable or starting, as opposed to a wrong statement. */
export function isConnectionLoss(error: unknown): boolean {
  const e = error as { code?: string; severity?: string; message?: string } | null
  if (!e) return false
  if (e.code && LOST.has(e.code)) return true
  // A fatal error ends its connection. It is permanent only if the client will never be accepted.
  if (e.severity !== undefined && isFatal(e)) {
    if (e.code === '08P01') return !NEVER_ACCEPTED.test(e.message ?? '')
    return !/^(0A|28|3D|42)/.test(e.code ?? '')
  }
  return /Connection terminated|connection timeout|Client has encountered a connection error|not queryable|timeout exceeded when trying to connect/i.test(
    e.message ?? '',
  )
}

/** SQLSTATEs of a database that answers but cannot write: read-only, disk full, out of memory, I/O error. */
const CANNOT_WRITE = new Set(['25006', '53100', '53200', '58030'])

/**
 * Whether an error means that no statement can write at present: the database is unreachable, full, read-only or has no
 * connection slots. The statement may be repeated later.
 */
export function isOutage(error: unknown): boolean {
  const code = (error as { code?: string } | null)?.code
  if (code !== undefined && CANNOT_WRITE.has(code)) return true
  return isConnectionLoss(error) || isTooManyConnections(error)
}

/** The error that callers get for an outage. The database may still answer reads. */
export function outageRefusal(error: unknown): RewardOpsError {
  return new RewardOpsError('database_unavailable', outageMessage(error), {
    retryAfterMs: 1_000,
    cause: error,
  })
}

function outageMessage(error: unknown): string {
  const { code } = error as { code?: string }
  if (code === '25006') return 'The database is read-only.'
  if (code === '53100') return 'The disk of the database is full.'
  if (isTooManyConnections(error)) return 'The database has no free connection.'
  return 'The database is not answering.'
}

/** Whether an error is a deadlock or serialization failure: the transaction changed nothing and may be repeated. */
export function isRetryableConflict(error: unknown): boolean {
  const code = (error as { code?: string } | null)?.code
  return code === '40P01' || code === '40001'
}

export async function inTransaction<T>(client: pg.ClientBase, work: () => Promise<T>): Promise<T> {
  await client.query('begin')
  try {
    const result = await work()
    await client.query('commit')
    return result
  } catch (error) {
    // The first error is the cause. An error of the rollback would only show that the connection is lost too.
    if (!isConnectionLoss(error)) await client.query('rollback').catch(() => {})
    throw error
  }
}

/** Time that a request of the server waits for a connection slot of the database. */
const SLOT_WAIT_MS = 5_000
const IDLE_TIMEOUT_MS = 60_000

/** Planner settings of pools with lookups by key only, so that outdated statistics cause no scans. */
const KEYED: SessionSettings = {
  enable_seqscan: 'off',
  enable_hashjoin: 'off',
  enable_mergejoin: 'off',
  plan_cache_mode: 'force_generic_plan',
}

export interface DatabaseOptions {
  max: number
  /** Shown in `pg_stat_activity`. */
  name: string
  statementTimeoutMs?: number
  /** Client-side time limit of every statement, in ms. It ends connections that were cut off silently. */
  queryTimeoutMs?: number
  /**
   * Time that a caller waits while others use all connections, in ms, before it gets a `PoolBusyError`. By default, the
   * wait fails as an outage after 30 s.
   */
  queueTimeoutMs?: number
  /** True if every statement is a lookup by key. The planner then avoids table scans, hash joins and merge joins. */
  keyed?: boolean
  /**
   * Commits do not wait for the disk, so a crash may undo the last ones. Only for work that is repeated after a crash,
   * such as retention.
   */
  lazyCommits?: boolean
  staysOpen?: boolean
  /**
   * Time that a caller waits while the database has no connection slot, in ms. Infinity means no limit. Default: 5 s.
   */
  slotWaitMs?: number
}

/** A connection pool. Frequent queries are prepared statements, so Postgres parses them once per connection. */
export class Database {
  readonly pool: pg.Pool & Pick<SessionPool, 'lend'>
  readonly url: string
  readonly max: number
  slotWaitMs: number
  /** Encrypts and decrypts the secrets in the rows. A process sets it when it starts. */
  secrets = new SecretBox([])

  constructor(url: string, log: Logger, options: DatabaseOptions) {
    this.url = url
    this.max = options.max
    this.slotWaitMs = options.slotWaitMs ?? SLOT_WAIT_MS
    this.pool = new SessionPool(url, {
      max: options.max,
      name: options.name,
      settings: {
        ...(options.statementTimeoutMs ? { statement_timeout: options.statementTimeoutMs } : {}),
        ...(options.keyed ? KEYED : {}),
        ...(options.lazyCommits ? { synchronous_commit: 'off' } : {}),
      },
      statements: [USE_FUNCTIONS],
      queryTimeoutMs: options.queryTimeoutMs,
      queueTimeoutMs: options.queueTimeoutMs,
      idleTimeoutMs: options.staysOpen ? 0 : IDLE_TIMEOUT_MS,
      slotWaitMs: () => this.slotWaitMs,
      log,
    })
    // Without a listener, a killed Postgres would end this process.
    this.pool.on('error', (error) =>
      log.warn({ err: error.message }, 'idle database connection lost'),
    )
  }

  async rows<T>(name: string, text: string, values: unknown[] = []): Promise<T[]> {
    return (await this.pool.query({ name, text, values })).rows as T[]
  }

  /** Runs an unnamed statement, for rare statements and those whose text varies. */
  async adhoc<T>(text: string, values: unknown[] = []): Promise<T[]> {
    return (await this.pool.query(text, values)).rows as T[]
  }

  async transaction<T>(work: (client: Client) => Promise<T>): Promise<T> {
    return this.pool.lend(
      (client) => inTransaction(client, () => work(client)),
      // A connection that could not roll back is not reused.
      (error, client) => isConnectionLoss(error) || client.getTransactionStatus() !== 'I',
    )
  }

  /** Runs `work` on a connection of its own. After an error the connection is closed, which releases its locks. */
  async holding<T>(work: (client: Client) => Promise<T>): Promise<T> {
    return this.pool.lend(work, () => true)
  }

  /**
   * Runs independent statements in one transaction, all sent before the first answer: one round trip in total. Throws
   * the first failure, after which nothing was changed.
   */
  async atOnce(statements: Statement[]): Promise<void> {
    await this.pool.lend(
      async (client) => {
        // node-postgres reads this flag with every statement. The connection belongs to this call until all answers
        // have arrived.
        const pipelined = client as Client & { pipeline: boolean }
        pipelined.pipeline = true
        const settled = await Promise.allSettled([
          client.query('begin'),
          ...statements.map((s) => client.query(s)),
          client.query('commit'),
        ])
        pipelined.pipeline = false
        const failure = settled.find((s) => s.status === 'rejected')
        if (failure) throw failure.reason
      },
      (error) => isFatal(error),
    )
  }

  async close(): Promise<void> {
    await this.pool.end()
  }
}

/**
 * Repeats `work` after outages and transaction conflicts, for at most `forMs`. Throws other errors immediately. `work`
 * must be repeatable.
 */
export async function throughOutage<T>(
  work: () => Promise<T>,
  options: {
    forMs: number
    signal?: AbortSignal
    /** Called after each attempt that failed because of an outage, if another attempt follows. */
    onOutage?: (error: unknown) => void
  },
): Promise<T> {
  const until = performance.now() + options.forMs
  for (let delayMs = 50; ; delayMs = Math.min(1_000, delayMs * 2)) {
    try {
      return await work()
    } catch (error) {
      const isPassing = isOutage(error) || isRetryableConflict(error)
      if (!isPassing || performance.now() + delayMs > until || options.signal?.aborted) throw error
      if (isOutage(error)) options.onOutage?.(error)
      await new Promise((resolve) => setTimeout(resolve, delayMs))
    }
  }
}
