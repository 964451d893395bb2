import type { Logger } from '../log.ts'
import { type Database, throughOutage } from '../store/database.ts'
import { PoolClosedError } from '../store/session.ts'
import { attemptsStatement, type FlushedSample, flushStatement } from '../store/sql/flush.ts'
import { retriesStatement } from '../store/sql/retries.ts'

export interface EndedSample extends FlushedSample {
  /**
   * Called when the result is committed (`written` true) or could not be written (false). An outage only delays the
   * call.
   */
  settled: (written: boolean) => void
}

/** Maximum time that a finished sample waits for further samples of its flush, ms. */
const FLUSH_MS = 40
/**
 * Number of waiting samples that starts a flush immediately. A flush writes at most twice this number, because its
 * locks block other workers.
 */
const FLUSH_SAMPLES = 512
/** Concurrent flushes. A second one would wait for the first one's lock on the batch. */
const MAX_FLUSHES = 1

/** Writes finished samples in bulk, without waiting for the rest of their chunk or group. */
export class ResultWriter {
  readonly #db: Database
  readonly #workerId: number
  readonly #log: Logger
  /** Called after a flush whose samples were all still pending; the stored results then equal the flushed ones. */
  readonly #onCommitted: ((samples: EndedSample[]) => void) | null
  readonly #statement: typeof flushStatement
  readonly #onOutage: (error: unknown) => void
  readonly #onWritten: () => void
  readonly #onSettled: () => void
  #waiting: EndedSample[] = []
  #timer: NodeJS.Timeout | undefined
  #flushes = 0
  #flushing = 0
  #idle: (() => void)[] = []

  constructor(
    db: Database,
    workerId: number,
    log: Logger,
    options: {
      onCommitted?: ((samples: EndedSample[]) => void) | null
      statement?: typeof flushStatement
      /**
       * Called when a flush failed because of an outage. Its results are kept and retried while this process lives.
       */
      onOutage?: (error: unknown) => void
      /** Called when the database takes writes: a flush succeeded, or failed for a reason other than an outage. */
      onWritten?: () => void
      /** Called after each flush, when its samples are settled. */
      onSettled?: () => void
    } = {},
  ) {
    const { onCommitted = null, statement = flushStatement } = options
    this.#statement = statement
    this.#onOutage = options.onOutage ?? (() => {})
    this.#onWritten = options.onWritten ?? (() => {})
    this.#onSettled = options.onSettled ?? (() => {})
    this.#onCommitted = onCommitted
    this.#db = db
    this.#workerId = workerId
    this.#log = log
  }

  add(sample: EndedSample, now = false): void {
    this.#waiting.push(sample)
    if (this.#waiting.length >= FLUSH_SAMPLES || now) this.#flush()
    else this.#timer ??= setTimeout(() => this.#flush(), FLUSH_MS)
  }

  /** Number of samples whose results are not written yet. */
  get unwritten(): number {
    return this.#waiting.length + this.#flushing
  }

  async drain(): Promise<void> {
    while (this.unwritten > 0) {
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
    this.#flushing += samples.length
    void this.#writeOrHalve(samples).then(() => {
      this.#flushes--
      if (this.#waiting.length >= FLUSH_SAMPLES) this.#flush()
      else if (this.#waiting.length > 0) this.#timer ??= setTimeout(() => this.#flush(), FLUSH_MS)
      if (this.unwritten === 0 || this.#waiting.length > 0) {
        for (const wake of this.#idle.splice(0)) wake()
      }
    })
  }

  /**
   * Writes samples and settles them. If that fails because of a sample, each half is written by itself, and so on, so
   * that all other samples are written.
   */
  async #writeOrHalve(samples: EndedSample[]): Promise<void> {
    let written = true
    try {
      const counted = await throughOutage(() => this.#write(samples), {
        forMs: Number.POSITIVE_INFINITY,
        onOutage: this.#onOutage,
      })
      this.#onWritten()
      if (counted === samples.length) this.#reportCommitted(samples)
    } catch (error) {
      const about = { err: (error as Error).message, samples: samples.length }
      // The process stops during an outage, so another worker scores the samples again.
      if (error instanceof PoolClosedError) {
        this.#log.warn(about, 'results were not written before the stop')
      } else {
        this.#onWritten()
        if (samples.length > 1 && isOfSamples(error)) {
          const half = samples.length >> 1
          await this.#writeOrHalve(samples.slice(0, half))
          return this.#writeOrHalve(samples.slice(half))
        }
        this.#log.error(about, 'results could not be written')
      }
      written = false
    }
    this.#flushing -= samples.length
    for (const sample of samples) sample.settled(written)
    this.#onSettled()
  }

  #reportCommitted(samples: EndedSample[]): void {
    try {
      this.#onCommitted?.(samples)
    } catch (error) {
      // The results are stored, so callers that wait for them find them in the database.
      this.#log.error(
        { err: (error as Error).message, samples: samples.length },
        'committed results could not be reported',
      )
    }
  }

  /** Writes the samples. Returns how many of them were still pending. */
  async #write(samples: EndedSample[]): Promise<number> {
    const attempts = attemptsStatement(this.#workerId, samples)
    const flush = this.#statement(this.#workerId, samples)
    if (attempts === null) return (await this.#db.pool.query<{ n: number }>(flush)).rows[0]!.n
    return this.#db.transaction(async (client) => {
      await client.query(attempts)
      const { n } = (await client.query<{ n: number }>(flush)).rows[0]!
      await client.query(retriesStatement(samples))
      return n
    })
  }
}

/**
 * Whether an error may be due to some of the samples: refused values, broken constraints, values over a limit, and
 * errors of this process, such as a string that would be too long.
 */
function isOfSamples(error: unknown): boolean {
  const { code } = error as { code?: string }
  return code === undefined || /^(22|23|54)/.test(code)
}
