import type { Logger } from '../log.ts'
import { type Database, throughOutage } from '../store/database.ts'
import { attemptsStatement, type FlushedSample, flushStatement } from '../store/sql/flush.ts'

/** One sample's end, as it is to be written. */
export interface EndedSample extends FlushedSample {
  /** Called when the result is committed, or could not be written for a reason other than an outage. */
  settled: (written: boolean) => void
}

/** A finished sample waits at most this long for others to be written with it. */
const FLUSH_MS = 40
/** Beyond this many a flush's transaction holds its locks too long for the other workers. */
const FLUSH_SAMPLES = 512
/** One at a time: a second would wait for the first's lock on the batch, and be smaller for it. */
const MAX_FLUSHES = 1

/** Writes finished samples in bulk, whatever else their chunk or group still waits for. */
export class ResultWriter {
  readonly #db: Database
  readonly #workerId: number
  readonly #log: Logger
  /** Hears of a flush that counted whole: what is stored is what was flushed. */
  readonly #onCommitted: ((samples: EndedSample[]) => void) | null
  readonly #statement: typeof flushStatement
  readonly #onOutage: (error: unknown) => void
  readonly #onWritten: () => void
  #waiting: EndedSample[] = []
  #timer: NodeJS.Timeout | undefined
  #flushes = 0
  #idle: (() => void)[] = []

  constructor(
    db: Database,
    workerId: number,
    log: Logger,
    options: {
      onCommitted?: ((samples: EndedSample[]) => void) | null
      statement?: typeof flushStatement
      /** A flush failed because of the database. Its results are kept and written again as long as this process lives. */
      onOutage?: (error: unknown) => void
      /** A flush succeeded. */
      onWritten?: () => void
    } = {},
  ) {
    const { onCommitted = null, statement = flushStatement } = options
    this.#statement = statement
    this.#onOutage = options.onOutage ?? (() => {})
    this.#onWritten = options.onWritten ?? (() => {})
    this.#onCommitted = onCommitted
    this.#db = db
    this.#workerId = workerId
    this.#log = log
  }

  /** Takes a result; `now` skips the wait for others. */
  add(sample: EndedSample, now = false): void {
    this.#waiting.push(sample)
    if (this.#waiting.length >= FLUSH_SAMPLES || now) this.#flush()
    else this.#timer ??= setTimeout(() => this.#flush(), FLUSH_MS)
  }

  /** Results not yet committed. */
  get pending(): number {
    return this.#waiting.length + this.#flushes
  }

  /** Resolves when everything taken is committed. */
  async drain(): Promise<void> {
    while (this.pending > 0) {
      this.#flush()
      await new Promise<void>((resolve) => this.#idle.push(resolve))
    }
  }

  #flush(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
    if (this.#flushes >= MAX_FLUSHES || this.#waiting.length === 0) return
    const samples = this.#waiting.splice(0, FLUSH_SAMPLES * 2)
    this.#flushes++
    void throughOutage(() => this.#write(samples), {
      forMs: Number.POSITIVE_INFINITY,
      onOutage: this.#onOutage,
    })
      .then((counted) => {
        this.#onWritten()
        if (counted === samples.length) this.#onCommitted?.(samples)
        return true
      })
      .catch((error: Error) => {
        this.#log.error(
          { err: error.message, samples: samples.length },
          'results could not be written',
        )
        return false
      })
      .then((written) => {
        this.#flushes--
        for (const sample of samples) sample.settled(written)
        if (this.#waiting.length >= FLUSH_SAMPLES) this.#flush()
        else if (this.#waiting.length > 0) this.#timer ??= setTimeout(() => this.#flush(), FLUSH_MS)
        if (this.pending === 0 || this.#waiting.length > 0) {
          for (const wake of this.#idle.splice(0)) wake()
        }
      })
  }

  /** Gives how many samples counted. */
  async #write(samples: EndedSample[]): Promise<number> {
    const attempts = attemptsStatement(this.#workerId, samples)
    const flush = this.#statement(this.#workerId, samples)
    if (attempts === null) return (await this.#db.pool.query<{ n: number }>(flush)).rows[0]!.n
    return this.#db.transaction(async (client) => {
      await client.query(attempts)
      return (await client.query<{ n: number }>(flush)).rows[0]!.n
    })
  }
}
