import pg from 'pg'
import type { Logger } from '../log.ts'
import { withTimeout } from '../with-timeout.ts'
import { type ConnectionUrl, type Encryption, readConnectionUrl } from './connection-url.ts'

/** Settings of a session by name, such as `{ enable_seqscan: 'off' }`. */
export type SessionSettings = Readonly<Record<string, string | number>>

/** Connecting, authentication and the session's settings together may take this long. */
const CONNECT_TIMEOUT_MS = 10_000
/** Callers of a pool wait this long for one of its connections; then the database counts as away. */
const QUEUE_TIMEOUT_MS = 30_000
/** How long a start waits while the database has no connection slot. */
export const START_SLOT_WAIT_MS = 60_000
/** Attempts while the database has no free connection slot are this far apart, the first ones closer. */
const FIRST_RETRY_MS = 50
const MAX_RETRY_MS = 1_000

/** The database has no free connection slot, and none became free in time. Its code makes it a passing outage. */
export class TooManyConnectionsError extends Error {
  readonly code = '53300'

  constructor(cause: unknown) {
    super(`the database has no free connection slot: ${(cause as Error).message}`, { cause })
    this.name = 'TooManyConnectionsError'
  }
}

/** Whether an error means that Postgres, the role, the database or a pooler has no connection slot left. */
export function isTooManyConnections(error: unknown): boolean {
  const e = error as { code?: string; message?: string } | null
  if (!e) return false
  if (e.code === '53300') return true
  // PgBouncer and Supavisor answer with codes of other failures.
  return /no more connections allowed|too many clients|too many connections|remaining connection slots|max clients reached|query_wait_timeout/i.test(
    e.message ?? '',
  )
}

/** The server refused to connect this way, and the `sslmode` allows another, which is tried next. */
class EncryptionRefused extends Error {
  constructor(cause: unknown) {
    super((cause as Error).message, { cause })
  }
}

/** What the server said of the attempt that it could have taken. */
function bothRefused(first: EncryptionRefused, second: EncryptionRefused): unknown {
  return NO_TLS.test(second.message) ? first.cause : second.cause
}

/** Of node-postgres, where the server answers the request for TLS with no. */
const NO_TLS = /does not support SSL|error establishing an SSL connection/

/** A database to connect to, and which way worked last. Shared by all connections of one URL. */
class Target {
  readonly #read: ConnectionUrl
  encryption: Encryption

  constructor(url: string) {
    this.#read = readConnectionUrl(url)
    this.encryption = this.#read.attempts[0]
  }

  /** For node-postgres; of an encrypted connection or not, as `encryption` says now. */
  get config(): pg.ClientConfig {
    const { url, tls, negotiation } = this.#read
    const ssl = this.encryption === 'tls' ? { ...tls } : false
    const isDirect = negotiation === 'direct' && ssl !== false
    return {
      connectionString: url,
      ssl,
      sslnegotiation: isDirect ? 'direct' : 'postgres',
    } as pg.ClientConfig
  }

  /** The error as it is, or marked where another way may be tried. */
  refusal(tried: Encryption, error: Error): Error {
    const other = this.#read.attempts.find((encryption) => encryption !== tried)
    if (other === undefined || !isRefusal(tried, error)) return error
    if (this.encryption === tried) this.encryption = other
    return new EncryptionRefused(error)
  }
}

/** As libpq falls back: not where the server is away, full or starting, nor where the password is wrong. */
function isRefusal(
  tried: Encryption,
  error: Error & { code?: string; severity?: string },
): boolean {
  const { code = '', message, severity } = error
  if (isTooManyConnections(error)) return false
  if (severity !== undefined) {
    if (tried === 'tls') return code === '28000'
    return !['28P01', '3D000', '57P03'].includes(code)
  }
  if (tried === 'plain') return false
  return (
    NO_TLS.test(message) ||
    /^ERR_(SSL|TLS|OSSL)|^EPROTO$|CERT|UNABLE_TO_|SELF_SIGNED|SIGNATURE|INVALID_(CA|PURPOSE)|PATH_LENGTH/.test(
      code,
    )
  )
}

const targets = new Map<string, Target>()

function targetOf(url: string): Target {
  let target = targets.get(url)
  if (target === undefined) {
    target = new Target(url)
    targets.set(url, target)
  }
  return target
}

interface SessionConfig extends pg.PoolConfig {
  target: Target
  /** A statement that makes the session's settings; empty: none. */
  setUp: string
  connectTimeoutMs: number
  queryTimeoutMs: number | undefined
  /** Hears of a connection that was not made, before the pool does. */
  onFailure?: (error: Error) => void
}

/**
 * A client that is connected when its settings are made. They are made by statement: PgBouncer refuses connections that
 * ask for `options` or for a `statement_timeout` at startup.
 */
class SessionClient extends pg.Client {
  readonly #config: SessionConfig
  readonly #tried: Encryption
  /** Every statement's time limit; before the settings are made, theirs. */
  #limitMs: number | undefined
  /** When the last statement was sent, while one is unanswered. */
  #sentAtMs: number | undefined
  #timeout: NodeJS.Timeout | undefined

  constructor(config: SessionConfig) {
    super({
      ...config,
      ...config.target.config,
      connectionTimeoutMillis: config.connectTimeoutMs,
    })
    this.#config = config
    this.#tried = config.target.encryption
    this.#limitMs = config.connectTimeoutMs
    this.on('drain', () => {
      this.#sentAtMs = undefined
    })
    // Unheard, the error event of a connection that breaks ends the process.
    this.on('error', () => {})
  }

  override connect(): Promise<this>
  override connect(callback: (error?: Error) => void): void
  override connect(callback?: (error?: Error) => void): Promise<this> | undefined {
    const done = this.#open()
    if (callback === undefined) return done
    done.then(() => callback(), callback)
    return undefined
  }

  // biome-ignore lint/suspicious/noExplicitAny: the overloads are those of node-postgres
  override query(...args: any[]): any {
    this.#sentAtMs = performance.now()
    if (this.#timeout === undefined && this.#limitMs !== undefined) this.#watch(this.#limitMs)
    return super.query(...(args as Parameters<pg.Client['query']>))
  }

  /**
   * Closes the connection when a statement is unanswered for too long. One timer a connection: the `query_timeout` of
   * node-postgres makes one a statement, and its closures keep the rows in memory until a full garbage collection.
   */
  #watch(afterMs: number): void {
    this.#timeout = setTimeout(() => {
      this.#timeout = undefined
      if (this.#sentAtMs === undefined || this.#limitMs === undefined) return
      const leftMs = this.#sentAtMs + this.#limitMs - performance.now()
      if (leftMs > 0) this.#watch(leftMs)
      else this.connection.stream.destroy(new Error('Connection terminated: a query timed out'))
    }, afterMs).unref()
  }

  async #open(): Promise<this> {
    const { setUp, target, onFailure, queryTimeoutMs } = this.#config
    try {
      await super.connect()
    } catch (error) {
      onFailure?.(error as Error)
      throw target.refusal(this.#tried, timedOut(error as Error))
    }
    try {
      // A pooler that is full takes the connection and lets its first statement wait.
      if (setUp !== '') await this.query(setUp)
    } catch (error) {
      onFailure?.(error as Error)
      void this.end().catch(() => {})
      throw error
    }
    clearTimeout(this.#timeout)
    this.#timeout = undefined
    this.#limitMs = queryTimeoutMs
    return this
  }
}

/** An expired timer of node-postgres in the words that its pool has for it. */
function timedOut(error: Error): Error {
  return error.message === 'timeout expired'
    ? new Error('Connection terminated due to connection timeout', { cause: error })
    : error
}

/** One round trip for all settings. */
function setUpOf(settings: SessionSettings, ...statements: string[]): string {
  return [
    ...Object.entries(settings).map(([name, value]) => `set ${name} = '${value}'`),
    ...statements,
  ].join('; ')
}

/** How one connection is made. */
export interface SessionOptions {
  /** Shown in `pg_stat_activity`. */
  name?: string
  settings?: SessionSettings
  keepAlive?: boolean
  connectTimeoutMs?: number
  /** Every statement's time limit on this side, in ms. */
  queryTimeoutMs?: number
  /** A free connection slot is waited for this long, in ms. Default: 0. */
  slotWaitMs?: number
  /** Ends the wait for a slot. */
  signal?: AbortSignal
}

/** Makes a connection outside a pool. The caller ends it, and hears its errors. */
export async function connectSession(
  url: string,
  options: SessionOptions = {},
): Promise<pg.Client> {
  const { slotWaitMs = 0, signal } = options
  const target = targetOf(url)
  const until = performance.now() + slotWaitMs
  let refused: EncryptionRefused | undefined
  for (let delayMs = FIRST_RETRY_MS; ; ) {
    const client = new SessionClient({
      target,
      setUp: setUpOf(options.settings ?? {}),
      ...(options.name === undefined ? {} : { application_name: options.name }),
      keepAlive: options.keepAlive ?? false,
      connectTimeoutMs: options.connectTimeoutMs ?? CONNECT_TIMEOUT_MS,
      queryTimeoutMs: options.queryTimeoutMs,
    })
    try {
      return await client.connect()
    } catch (error) {
      if (error instanceof EncryptionRefused) {
        if (refused !== undefined) throw bothRefused(refused, error)
        refused = error
      } else if (!isTooManyConnections(error)) {
        throw error
      } else if (performance.now() + delayMs > until || signal?.aborted) {
        throw new TooManyConnectionsError(error)
      } else {
        await new Promise((resolve) => setTimeout(resolve, delayMs))
        delayMs = Math.min(MAX_RETRY_MS, 2 * delayMs)
      }
    }
  }
}

/** How the connections of a pool are made. */
export interface SessionPoolOptions {
  max: number
  name: string
  settings: SessionSettings
  /** Sent after the settings are made. */
  statements: readonly string[]
  /** Every statement's time limit on this side, in ms: a connection that was cut off silently is given up. */
  queryTimeoutMs?: number | undefined
  /** An unused connection is closed after this long, in ms; 0: never. */
  idleTimeoutMs: number
  /** How long a caller waits for a connection slot of the database, in ms; Infinity: until there is one. */
  slotWaitMs(): number
  log: Pick<Logger, 'warn' | 'info'>
}

/**
 * A pool of sessions. Where the database has no slot for another connection, callers share those that the pool has; where
 * it has none, they wait, and one attempt at a time is made for all of them.
 */
export class SessionPool extends pg.Pool {
  readonly #max: number
  readonly #slotWaitMs: () => number
  readonly #log: SessionPoolOptions['log']
  #connected = 0
  /** Set while the pool has no connection and gets none. */
  #starved: Promise<void> | null = null
  #growing: NodeJS.Timeout | undefined
  #hasWarned = false

  constructor(url: string, options: SessionPoolOptions) {
    const target = targetOf(url)
    super({
      Client: SessionClient,
      target,
      setUp: setUpOf(options.settings, ...options.statements),
      onFailure: (error: Error) => this.#onFailure(error),
      max: options.max,
      application_name: options.name,
      queryTimeoutMs: options.queryTimeoutMs,
      connectionTimeoutMillis: QUEUE_TIMEOUT_MS,
      connectTimeoutMs: CONNECT_TIMEOUT_MS,
      idleTimeoutMillis: options.idleTimeoutMs,
    } as unknown as pg.PoolConfig)
    this.#max = options.max
    this.#slotWaitMs = options.slotWaitMs
    this.#log = options.log
    this.on('connect', () => this.#connected++)
    this.on('remove', () => this.#connected--)
  }

  override connect(): Promise<pg.PoolClient>
  override connect(
    callback: (
      error: Error | undefined,
      client: pg.PoolClient | undefined,
      done: () => void,
    ) => void,
  ): void
  override connect(
    callback?: (
      error: Error | undefined,
      client: pg.PoolClient | undefined,
      done: () => void,
    ) => void,
  ): Promise<pg.PoolClient> | undefined {
    const client = this.#take()
    if (callback === undefined) return client
    client.then(
      (taken) => callback(undefined, taken, taken.release),
      (error) => callback(error, undefined, () => {}),
    )
    return undefined
  }

  async #take(): Promise<pg.PoolClient> {
    const until = performance.now() + this.#slotWaitMs()
    let refused: EncryptionRefused | undefined
    for (;;) {
      if (this.#starved !== null) await waitUntil(this.#starved, until)
      try {
        return await super.connect()
      } catch (error) {
        if (error instanceof EncryptionRefused) {
          if (refused !== undefined) throw bothRefused(refused, error)
          refused = error
        } else if (!isTooManyConnections(error)) {
          throw error
        } else if (performance.now() >= until) {
          throw new TooManyConnectionsError(error)
        } else if (this.#connected === 0) {
          this.#starved ??= this.#untilSlot().finally(() => {
            this.#starved = null
          })
        }
      }
    }
  }

  /** Before the pool passes the turn on: without this each waiting caller would cause an attempt that fails too. */
  #onFailure(error: Error): void {
    if (!isTooManyConnections(error)) return
    this.options.max = Math.max(1, this.#connected)
    if (!this.#hasWarned) {
      this.#hasWarned = true
      this.#log.warn(
        { err: error.message, has: this.#connected, max: this.#max },
        'the database has no free connection slot',
      )
    }
    this.#growing ??= setTimeout(() => {
      this.#growing = undefined
      this.options.max = this.#max
    }, MAX_RETRY_MS).unref()
  }

  /** Resolves when a connection was made, or cannot be made for another reason. */
  async #untilSlot(): Promise<void> {
    for (
      let delayMs = FIRST_RETRY_MS;
      !this.ending;
      delayMs = Math.min(MAX_RETRY_MS, 2 * delayMs)
    ) {
      // Processes that were refused together try again apart.
      await new Promise((resolve) => setTimeout(resolve, delayMs * (0.5 + Math.random())))
      try {
        const client = await super.connect()
        client.release()
        this.#hasWarned = false
        this.#log.info({}, 'the database has connection slots again')
        return
      } catch (error) {
        if (!isTooManyConnections(error)) return
      }
    }
  }

  /** Unlike the pool of node-postgres, keeps the connection after a statement that failed. Takes no callback. */
  // biome-ignore lint/suspicious/noExplicitAny: the overloads are those of node-postgres
  override async query(text: any, values?: any): Promise<any> {
    return this.lend(
      async (client) => {
        try {
          // Not the form that gives a promise: node-postgres then keeps the rows in memory longer.
          return await new Promise((resolve, reject) => {
            client.query(text, values, (error: Error | null, result: pg.QueryResult) =>
              error ? reject(error) : resolve(result),
            )
          })
        } catch (error) {
          // The stack leads to the caller, not to the socket.
          Error.captureStackTrace(error as Error)
          // The error comes before the connection tells whether a transaction is open; an empty query waits for that.
          if (!isFatal(error)) await client.query('').catch(() => {})
          throw error
        }
      },
      // A list of statements that began a transaction and failed leaves it open and aborted, for the next caller.
      (error, client) => isFatal(error) || client.getTransactionStatus() !== 'I',
    )
  }

  /**
   * Runs `work` on a connection of its own. `isBroken`: whether after this error the connection is closed, not used again.
   */
  async lend<T>(
    work: (client: pg.PoolClient) => Promise<T>,
    isBroken: (error: unknown, client: pg.PoolClient) => boolean,
  ): Promise<T> {
    const client = await this.connect()
    let isClosed = false
    try {
      return await work(client)
    } catch (error) {
      isClosed = isBroken(error, client)
      throw error
    } finally {
      // A connection that was lost meanwhile is not queryable, and is closed either way.
      client.release(isClosed)
    }
  }

  override async end(): Promise<void> {
    clearTimeout(this.#growing)
    await super.end()
  }
}

/** Whether a connection is of no use after an error: it did not come from Postgres, or ends the session. */
export function isFatal(error: unknown): boolean {
  const severity = (error as { severity?: string } | null)?.severity
  return severity === undefined || severity === 'FATAL' || severity === 'PANIC'
}

async function waitUntil(event: Promise<void>, until: number): Promise<void> {
  if (Number.isFinite(until)) await withTimeout(event, Math.max(0, until - performance.now()))
  else await event
}
