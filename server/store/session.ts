import pg from 'pg'
import type { Logger } from '../log.ts'
import { withTimeout } from '../with-timeout.ts'
import { type ConnectionUrl, type Encryption, readConnectionUrl } from './connection-url.ts'

export type SessionSettings = Readonly<Record<string, string | number>>

/** Time limit for connecting, authenticating and applying the session's settings, in total. */
const CONNECT_TIMEOUT_MS = 10_000
/** Time that callers of a pool wait for one of its connections before the database counts as unreachable. */
const QUEUE_TIMEOUT_MS = 30_000
/** Time that a start, a backup or a restore waits while the database has no free connection slot. */
export const START_SLOT_WAIT_MS = 60_000
/** First and longest pause between attempts while the database has no free connection slot. */
const FIRST_RETRY_MS = 50
const MAX_RETRY_MS = 1_000

/**
 * Thrown if no connection slot of the database became free in time. The error's code marks it as a temporary outage.
 */
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
  // PgBouncer and Supavisor report this shortage with the codes of other failures.
  return /no more connections allowed|too many clients|too many connections|remaining connection slots|max clients reached|query_wait_timeout/i.test(
    e.message ?? '',
  )
}

/**
 * Thrown if the server refused a connection because of its encryption (TLS or none), and `sslmode` also allows the
 * other encryption, which is tried next.
 */
class EncryptionRefused extends Error {
  constructor(cause: unknown) {
    super((cause as Error).message, { cause })
  }
}

/**
 * The error to report if the server refused both encryptions: the error for the encryption that the server supports.
 */
function bothRefused(first: EncryptionRefused, second: EncryptionRefused): unknown {
  return NO_TLS.test(second.message) ? first.cause : second.cause
}

/** node-postgres's messages if the server refuses TLS. */
const NO_TLS = /does not support SSL|error establishing an SSL connection/

/** Messages of poolers and hosted databases that refuse connections without TLS. */
const WANTS_TLS = /\b(SSL|TLS|sslmode|encrypt\w*|insecure)\b/i

/** A database to connect to, and the encryption to use. Shared by all connections of one URL. */
class Target {
  readonly #read: ConnectionUrl
  encryption: Encryption

  constructor(url: string) {
    this.#read = readConnectionUrl(url)
    this.encryption = this.#read.attempts[0]
  }

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

  /** Returns the error; wrapped in {@link EncryptionRefused} if the caller should try the other encryption next. */
  refusal(tried: Encryption, error: Error): Error {
    const other = this.#read.attempts.find((encryption) => encryption !== tried)
    if (other === undefined || !isRefusal(tried, error)) return error
    if (this.encryption === tried) this.encryption = other
    return new EncryptionRefused(error)
  }
}

/**
 * Whether an error is a refusal of the tried encryption, so that the other one may be tried. Errors because of a wrong
 * password, or because a server is unreachable, full or starting, are not such refusals.
 */
function isRefusal(
  tried: Encryption,
  error: Error & { code?: string; severity?: string },
): boolean {
  const { code = '', message, severity } = error
  if (isTooManyConnections(error)) return false
  if (severity !== undefined) {
    // Postgres sends 28000 if pg_hba.conf has no entry for the connection; poolers name TLS in their message. Other
    // errors, such as a full disk, do not depend on the encryption.
    return code === '28000' || (tried === 'plain' && WANTS_TLS.test(message))
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
  /** A statement that applies the session's settings. */
  setUp: string
  connectTimeoutMs: number
  queryTimeoutMs: number | undefined
  /** Called before the pool learns of a failed connection. */
  onFailure?: (error: Error) => void
}

/**
 * A client that counts as connected once its settings are applied. Settings are sent as a statement, because PgBouncer
 * refuses connections with `options` or `statement_timeout` at startup.
 */
class SessionClient extends pg.Client {
  readonly #config: SessionConfig
  readonly #tried: Encryption
  /** Time limit of every statement, in ms; during the set-up, the limit of the set-up. */
  #limitMs: number | undefined
  /** Time when the last statement was sent, if one is unanswered. */
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
    // Without a listener, the error event of a broken connection ends the process.
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
   * Closes the connection if a statement is unanswered for too long. There is one timer per connection: node-postgres's
   * `query_timeout` creates one per statement, and its closures keep the rows in memory until a full garbage
   * collection.
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
      // A full pooler accepts the connection but does not answer its first statement.
      await this.query(setUp)
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

/**
 * Replaces the message of a connection timeout with the one that node-postgres's pool uses, which `isOutage`
 * recognizes.
 */
function timedOut(error: Error): Error {
  return error.message === 'timeout expired'
    ? new Error('Connection terminated due to connection timeout', { cause: error })
    : error
}

/**
 * The formats that this service reads. With other settings of the role or the database, times would be unreadable and
 * scores rounded.
 */
const FORMATS: SessionSettings = { datestyle: 'ISO', timezone: 'UTC', extra_float_digits: 1 }

function setUpOf(settings: SessionSettings, ...statements: string[]): string {
  return [
    ...Object.entries({ ...FORMATS, ...settings }).map(
      ([name, value]) => `set ${name} = '${value}'`,
    ),
    ...statements,
  ].join('; ')
}

export interface SessionOptions {
  /** Shown in `pg_stat_activity`. */
  name?: string
  settings?: SessionSettings
  keepAlive?: boolean
  connectTimeoutMs?: number
  /** Client-side time limit of every statement, in ms. */
  queryTimeoutMs?: number
  /** Time to wait for a free connection slot, in ms. Default: 0. */
  slotWaitMs?: number
  signal?: AbortSignal
}

/** Opens a connection outside a pool. The caller ends it and listens for its errors. */
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

export async function withSession<T>(
  url: string,
  use: (client: pg.Client) => Promise<T>,
): Promise<T> {
  const client = await connectSession(url)
  try {
    return await use(client)
  } finally {
    await client.end().catch(() => {})
  }
}

export interface SessionPoolOptions {
  max: number
  name: string
  settings: SessionSettings
  /** Sent after the settings are applied. */
  statements: readonly string[]
  /** Client-side time limit of every statement, in ms. It ends connections that were cut off silently. */
  queryTimeoutMs?: number | undefined
  /**
   * Time that a caller waits while others use all connections, in ms, before it gets a {@link PoolBusyError}. If
   * undefined, the caller waits 30 s, after which the database counts as unreachable.
   */
  queueTimeoutMs?: number | undefined
  /** Time after which an idle connection is closed, in ms. With 0, it is never closed. */
  idleTimeoutMs: number
  /** Time that a caller waits for a connection slot of the database, in ms. Infinity means no limit. */
  slotWaitMs(): number
  log: Pick<Logger, 'warn' | 'info'>
}

/** Thrown if the pool is closed because the process stops. */
export class PoolClosedError extends Error {
  constructor() {
    super('the pool of database connections is closed')
    this.name = 'PoolClosedError'
  }
}

/** Thrown if other callers used all connections of a pool for longer than `queueTimeoutMs`. The database works. */
export class PoolBusyError extends Error {
  constructor(cause: unknown) {
    super('other queries used all connections of the pool', { cause })
    this.name = 'PoolBusyError'
  }
}

/**
 * A pool of sessions. If the database has no slot for another connection, callers share the pool's connections. If the
 * pool has no connection, callers wait, and the pool makes one attempt at a time for all of them.
 */
export class SessionPool extends pg.Pool {
  readonly #max: number
  readonly #slotWaitMs: () => number
  readonly #log: SessionPoolOptions['log']
  readonly #queueTimeoutMs: number | undefined
  #connected = 0
  /** Set while the pool has no connection and cannot get one. */
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
      connectionTimeoutMillis: options.queueTimeoutMs ?? QUEUE_TIMEOUT_MS,
      connectTimeoutMs: CONNECT_TIMEOUT_MS,
      idleTimeoutMillis: options.idleTimeoutMs,
    } as unknown as pg.PoolConfig)
    this.#max = options.max
    this.#slotWaitMs = options.slotWaitMs
    this.#log = options.log
    this.#queueTimeoutMs = options.queueTimeoutMs
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
      if (this.ending) throw new PoolClosedError()
      try {
        return await super.connect()
      } catch (error) {
        if (this.#isBusy(error)) throw new PoolBusyError(error)
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

  /** Whether a caller waited too long because others used all connections. */
  #isBusy(error: unknown): boolean {
    const { message } = error as Error
    const hasWaited = message === 'timeout exceeded when trying to connect'
    return hasWaited && this.#queueTimeoutMs !== undefined && this.#connected >= this.options.max
  }

  /**
   * Lowers the pool's maximum before the pool serves the next caller, because otherwise each waiting caller would
   * cause another failed attempt.
   */
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

  /** Resolves when an attempt to connect succeeds or fails for a reason other than a missing slot. */
  async #untilSlot(): Promise<void> {
    for (
      let delayMs = FIRST_RETRY_MS;
      !this.ending;
      delayMs = Math.min(MAX_RETRY_MS, 2 * delayMs)
    ) {
      // The pauses are random, so that processes refused together do not retry together.
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

  /** Unlike node-postgres's pool, keeps the connection after a failed statement. Takes no callback. */
  // biome-ignore lint/suspicious/noExplicitAny: the overloads are those of node-postgres
  override async query(text: any, values?: any): Promise<any> {
    return this.lend(
      async (client) => {
        try {
          // The callback form is used, because with promises node-postgres keeps the rows in memory longer.
          return await new Promise((resolve, reject) => {
            client.query(text, values, (error: Error | null, result: pg.QueryResult) =>
              error ? reject(error) : resolve(result),
            )
          })
        } catch (error) {
          // Makes the stack trace lead to the caller, not to the socket.
          Error.captureStackTrace(error as Error)
          // The error arrives before the transaction status. An empty query waits for the status.
          if (!isFatal(error)) await client.query('').catch(() => {})
          throw error
        }
      },
      // Closes the connection if a failed list of statements left an aborted transaction open on it.
      (error, client) => isFatal(error) || client.getTransactionStatus() !== 'I',
    )
  }

  /** Runs `work` on a connection of its own. `isBroken` decides after an error whether the connection is closed. */
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
      // The pool also closes a connection that was lost, even if `isClosed` is false.
      client.release(isClosed)
    }
  }

  override async end(): Promise<void> {
    clearTimeout(this.#growing)
    await super.end()
  }
}

/** Whether an error makes its connection unusable: it did not come from Postgres, or it ends the session. */
export function isFatal(error: unknown): boolean {
  const severity = (error as { severity?: string } | null)?.severity
  return severity === undefined || severity === 'FATAL' || severity === 'PANIC'
}

async function waitUntil(event: Promise<void>, until: number): Promise<void> {
  if (Number.isFinite(until)) await withTimeout(event, Math.max(0, until - performance.now()))
  else await event
}
