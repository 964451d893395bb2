import { randomBytes } from 'node:crypto'
import type { Logger } from '../log.ts'
import type { Database } from '../store/database.ts'
import { insertProbe } from '../store/sql/processes.ts'
import { withTimeout } from '../with-timeout.ts'

/** How often this process writes its row, and so finds out whether it can. */
const CHECK_EVERY_MS = 1_000
/** How soon a failed write is tried again: `/readyz` is true within 2 s of the first that succeeds. */
const RETRY_MS = 400
/** A write that takes longer has failed: `/readyz` is false within 2 s. */
const WRITE_TIMEOUT_MS = 900
/**
 * After an outage, the jobs of a worker that has not reported yet are left alone for this long: the worker first writes the
 * results that it kept.
 */
const GRACE_MS = 15_000
/** Written, and rolled back, to see whether a full disk has room again: more than a table's free pages take. */
const PROBE_BYTES = 256 << 10

/**
 * Whether this process can write to the database: by a row that it writes every second on a connection of its own, and by
 * what its requests meet.
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

  /** `write`: the row of this process. */
  constructor(options: { db: Database; write: () => Promise<void>; log: Logger }) {
    this.#db = options.db
    this.#write = options.write
    this.#log = options.log
  }

  /** Why the database takes no writes; null: it does. */
  get problem(): string | null {
    return this.#problem
  }

  /** Whether the database was away a moment ago: workers that were cut off have not reported yet. */
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

  /** A request failed because of the database: looks at once. Its own pool may only have been busy. */
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

  /** A row may be rewritten in place on a disk that is full. */
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
