import { randomBytes } from 'node:crypto'
import type { Logger } from '../log.ts'
import type { Database } from '../store/database.ts'
import { insertProbe } from '../store/sql/processes.ts'
import { withTimeout } from '../with-timeout.ts'

/** Interval at which this process writes its table row to check that the database accepts writes. */
const CHECK_EVERY_MS = 1_000
/** Interval of retries after a failed write, so that `/readyz` succeeds within 2 s after writes succeed again. */
const RETRY_MS = 400
/** A write that takes longer counts as failed, so that `/readyz` fails within 2 s of an outage. */
const WRITE_TIMEOUT_MS = 900
/**
 * Time after an outage for which the jobs of workers that have not reported yet are not requeued. Before its first
 * report, a worker writes the results that it kept during the outage.
 */
const GRACE_MS = 15_000
/**
 * Size of the test write that checks whether a full disk has space again. A smaller write could fit into the free pages
 * of the table. The write is rolled back.
 */
const PROBE_BYTES = 256 << 10

/**
 * Tracks whether this process can write to the database, by writing its table row every second on a separate
 * connection. A request that fails because of the database starts a check immediately.
 */
export class Readiness {
  readonly #db: Database
  readonly #write: () => Promise<void>
  readonly #log: Logger
  #problem: string | null = null
  #isDiskFull = false
  #failedAtMs = 0
  #recoveredAtMs = performance.now()
  #timer: NodeJS.Timeout | undefined
  #checking = false
  #stopped = false

  constructor(options: { db: Database; write: () => Promise<void>; log: Logger }) {
    this.#db = options.db
    this.#write = options.write
    this.#log = options.log
  }

  /** The error of the last failed write, or null if the database accepts writes. */
  get problem(): string | null {
    return this.#problem
  }

  /** Whether the database was unavailable recently, so that disconnected workers may not have reported yet. */
  get isRecovering(): boolean {
    return this.#problem !== null || performance.now() - this.#recoveredAtMs < GRACE_MS
  }

  start(): void {
    void this.#check()
  }

  stop(): void {
    this.#stopped = true
    clearTimeout(this.#timer)
  }

  /**
   * Starts a check immediately, after a request failed because of the database. The check is needed because the failure
   * may only mean that the request's connection pool was busy.
   */
  suspect(error: unknown): void {
    if ((error as { code?: string }).code === '53100') this.#isDiskFull = true
    void this.#check()
  }

  #failed(error: unknown): void {
    const { code, message } = error as { code?: string; message: string }
    if (this.#problem === null) {
      this.#failedAtMs = performance.now()
      this.#log.warn({ err: message, code }, 'the database takes no writes')
    }
    if (code === '53100') this.#isDiskFull = true
    this.#problem = message
  }

  async #check(): Promise<void> {
    if (this.#checking || this.#stopped) return
    this.#checking = true
    try {
      const written = await withTimeout(
        this.#tryWrite().then(() => true),
        WRITE_TIMEOUT_MS,
      )
      if (written === null) throw new Error('the database does not answer')
      this.#succeeded()
    } catch (error) {
      this.#failed(error)
    } finally {
      this.#checking = false
      clearTimeout(this.#timer)
      const waitMs = this.#problem === null ? CHECK_EVERY_MS : RETRY_MS
      if (!this.#stopped) this.#timer = setTimeout(() => void this.#check(), waitMs)
    }
  }

  async #tryWrite(): Promise<void> {
    if (this.#isDiskFull) await this.#tryRoom()
    await this.#write()
  }

  /**
   * Checks for disk space by a write of PROBE_BYTES, because even on a full disk the usual write may rewrite a row in
   * place.
   */
  async #tryRoom(): Promise<void> {
    const undo = new Error('rolled back')
    await this.#db
      .transaction(async (client) => {
        await insertProbe(client, randomBytes(PROBE_BYTES).toString('base64'))
        throw undo
      })
      .catch((error: Error) => {
        if (error !== undo) throw error
      })
  }

  #succeeded(): void {
    this.#isDiskFull = false
    if (this.#problem === null) return
    this.#problem = null
    this.#recoveredAtMs = performance.now()
    const awayMs = Math.round(this.#recoveredAtMs - this.#failedAtMs)
    this.#log.warn({ awayMs }, 'the database takes writes again')
  }
}
