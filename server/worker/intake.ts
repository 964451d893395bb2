import type { Logger } from '../log.ts'
import {
  type FetchedJob,
  FUNCTIONS_POOL,
  INTERACTIVE_POOL,
  isPoolOfLimiter,
  type JobQueue,
  RULES_POOL,
  SANDBOX_POOL,
  SERVICES_POOL,
} from '../store/job-queue.ts'

/** Maximum number of samples that a worker holds for rules. Rules take milliseconds, so more would only wait here. */
const MAX_RULES_CAPACITY = 256
/**
 * Maximum number of interactive samples that a worker holds. The number is high, so that samples of a slow model do not
 * block samples of other models.
 */
const MAX_INTERACTIVE_CAPACITY = 1_024
/**
 * Maximum number of samples that a worker holds for rules that call a service. A sandbox runs 64 programs concurrently,
 * and a sample has up to ten programs.
 */
const SERVICES_CAPACITY = 64
/**
 * Maximum number of samples that a worker holds. It lets two workers score 5,000 rewards of 40 s concurrently. Samples
 * with unwritten results count, so that these results do not fill the memory if Postgres writes more slowly than the
 * worker scores.
 */
const MAX_SAMPLES = 4_096
/** Maximum length of all texts in a worker, in characters. It keeps the worker's memory under 300 MB. */
const MAX_TEXT_CHARS = 48 << 20
/** Interval of the poll that backs up notifications. */
const POLL_MS = 1_000
/**
 * A limiter's pool that has had no work for this time (ms) is polled only at this interval, because there may be
 * hundreds of limiters.
 */
const QUIET_MS = 30_000
/** Time for which a pool with jobs of a single run is assumed to get no other run's jobs, ms. */
const SOLE_MS = 200
/**
 * In addition to its share, a worker may claim the samples that it scores in this time (ms), because a fast model
 * finishes a small share before the next fetch ends.
 */
const AHEAD_MS = 100
const RATE_EVERY_MS = 125
/** Smoothing weight that halves a pool's rate in 4 s without samples. */
const IDLE_WEIGHT = 0.02
/** Samples assumed per job. Jobs have up to 64, so a fetch exceeds the capacity by at most 33 %, or by one job. */
const SAMPLES_PER_JOB = 48
const MAX_JOBS_PER_FETCH = 16

interface PoolState {
  name: string
  model: string | null
  inUse: number
  fetching: boolean
  again: boolean
  /** Runs served since the last full round. The next fetch ignores their jobs. */
  served: string[]
  /** Time until which the pool is assumed to have jobs of a single run, on the clock of `performance.now()`. */
  soleUntilMs: number
  /** Samples scored or failed per ms, smoothed over about half a second of work. */
  rate: number
  ended: number
  /** Times of the last fetch, and of the last fetch that returned jobs. */
  lookedMs: number
  hadWorkMs: number
}

export interface IntakeHost {
  /** Samples that this worker may have in flight to a model now, over all servers. */
  slotsOf(model: string): number
  /** This worker's equal share of the model's limit, leased or not. */
  fairShareOf(model: string): number
  /** Requests a lease, because there is work for a model but no slot. */
  wantSlots(model: string): void
  functionCapacity(): number
  limiterCapacity(pool: string): number
  /** Samples that were scored or failed here and whose results are not written yet. */
  unwritten(): number
  /** Receives a fetched job. `fetchedAtMs`: time when the fetch was sent, on the clock of `performance.now()`. */
  take(pool: string, job: FetchedJob, fetchedAtMs: number): void
}

/**
 * Fetches jobs only while there is capacity for their samples, so that waiting samples stay in the queue for any
 * worker. The runs of a pool take turns. Interactive samples have a separate capacity.
 */
export class Intake {
  readonly #queue: JobQueue
  readonly #host: IntakeHost
  readonly #log: Logger
  readonly #pools = new Map<string, PoolState>()
  readonly #timer: NodeJS.Timeout
  /** Set while samples end often enough for the worker to claim some beyond its share ({@link AHEAD_MS}). */
  #rateTimer: NodeJS.Timeout | undefined
  #textChars = 0
  #paused = false
  #halted = false
  /** Pools that lacked capacity while results were unwritten. */
  readonly #waitForWrites = new Set<string>()

  constructor(queue: JobQueue, host: IntakeHost, log: Logger) {
    this.#queue = queue
    this.#host = host
    this.#log = log
    this.#timer = setInterval(() => this.#poll(), POLL_MS)
    this.add(INTERACTIVE_POOL, null)
    this.add(RULES_POOL, null)
    this.add(FUNCTIONS_POOL, null)
    this.add(SERVICES_POOL, null)
  }

  add(name: string, model: string | null): void {
    if (this.#pools.has(name)) return
    this.#pools.set(name, {
      name,
      model,
      inUse: 0,
      fetching: false,
      again: false,
      served: [],
      soleUntilMs: 0,
      rate: 0,
      ended: 0,
      lookedMs: Number.NEGATIVE_INFINITY,
      hadWorkMs: Number.NEGATIVE_INFINITY,
    })
  }

  has(name: string): boolean {
    return this.#pools.has(name)
  }

  get inUse(): number {
    let n = 0
    for (const pool of this.#pools.values()) n += pool.inUse
    return n
  }

  get capacity(): number {
    let n = 0
    for (const pool of this.#pools.values()) n += this.#capacityOf(pool)
    return Math.min(n, MAX_SAMPLES)
  }

  inUseOf(name: string): number {
    return this.#pools.get(name)?.inUse ?? 0
  }

  /** Counts fetched (positive) or finished (negative) samples. */
  count(name: string, samples: number, textChars: number): void {
    const pool = this.#pools.get(name)
    if (pool) {
      pool.inUse += samples
      if (samples < 0) {
        pool.ended -= samples
        this.#rateTimer ??= setInterval(() => this.#measureRates(), RATE_EVERY_MS)
      }
    }
    this.#textChars += textChars
    if (samples < 0) this.pump(name)
  }

  /** While true, nothing is fetched, because results cannot be written. */
  set halted(halted: boolean) {
    this.#halted = halted
    if (!halted) this.pumpAll()
  }

  /** While true, nothing is fetched, because a sample that was lost twice runs alone. */
  set paused(paused: boolean) {
    this.#paused = paused
    if (!paused) this.pumpAll()
  }

  /**
   * True after a job that was lost twice has run. The next jobs may also kill the worker, so they are fetched one at a
   * time: a crash then loses only one of them.
   */
  oneByOne = false

  #poll(): void {
    const since = performance.now() - QUIET_MS
    for (const { name, inUse, lookedMs, hadWorkMs } of this.#pools.values()) {
      const quiet = isPoolOfLimiter(name) && inUse === 0 && hadWorkMs < since
      if (!quiet || lookedMs < since) this.pump(name)
    }
  }

  pumpAll(): void {
    for (const name of this.#pools.keys()) this.pump(name)
  }

  pump(name: string): void {
    const pool = this.#pools.get(name)
    if (!pool || this.#paused || this.#halted) return
    if (pool.fetching) {
      pool.again = true
      return
    }
    if (pool.model !== null && this.#shareOf(pool.model) === 0) {
      // If the limit is smaller than the number of workers, other workers may have all slots.
      this.#host.wantSlots(pool.model)
      return
    }
    const unwritten = name === INTERACTIVE_POOL ? 0 : this.#host.unwritten()
    const others = this.inUse - pool.inUse + unwritten
    const capacity = Math.min(this.#capacityOf(pool), MAX_SAMPLES - others)
    // A fetch after every finished sample would cost one query per sample. A fetch therefore waits until this much is
    // free: half of the capacity, or, if that is less, the larger of 48 samples and a quarter of the capacity.
    const least = Math.min(capacity / 2, Math.max(SAMPLES_PER_JOB, capacity / 4))
    if (capacity - pool.inUse < Math.max(1, least)) {
      if (unwritten > 0) this.#waitForWrites.add(name)
      return
    }
    if (this.#textChars > MAX_TEXT_CHARS && this.inUse > 0) return
    this.#waitForWrites.delete(name)
    pool.fetching = true
    void this.#fetch(pool, capacity - pool.inUse).finally(() => {
      pool.fetching = false
      if (pool.again) {
        pool.again = false
        this.pump(name)
      }
    })
  }

  /** Fetches samples for which there was no capacity before these results were written. */
  written(): void {
    const waiting = [...this.#waitForWrites]
    this.#waitForWrites.clear()
    for (const name of waiting) this.pump(name)
  }

  close(): void {
    clearInterval(this.#timer)
    clearInterval(this.#rateTimer)
    this.#paused = true
  }

  #capacityOf(pool: PoolState): number {
    if (pool.name === INTERACTIVE_POOL) return MAX_INTERACTIVE_CAPACITY
    if (pool.name === FUNCTIONS_POOL) return Math.min(this.#host.functionCapacity(), MAX_SAMPLES)
    if (pool.name === SERVICES_POOL || pool.name === SANDBOX_POOL) return SERVICES_CAPACITY
    if (isPoolOfLimiter(pool.name))
      return Math.min(this.#host.limiterCapacity(pool.name), MAX_SAMPLES)
    if (pool.model === null) return MAX_RULES_CAPACITY
    const share = this.#shareOf(pool.model)
    if (share === 0) return 0
    const ahead = Math.ceil(pool.rate * AHEAD_MS)
    return Math.min(Math.max(2 * share, share + 16, share + ahead), MAX_SAMPLES)
  }

  /**
   * The leased slots, or the fair share if it is larger, because the other workers release the missing slots at their
   * next renewal.
   */
  #shareOf(model: string): number {
    return Math.max(this.#host.slotsOf(model), this.#host.fairShareOf(model))
  }

  #measureRates(): void {
    let hasRate = false
    for (const pool of this.#pools.values()) {
      // Without samples, the rate falls slowly, because the next batch usually has a similar rate.
      const weight = pool.inUse === 0 && pool.ended === 0 ? IDLE_WEIGHT : 0.3
      pool.rate += weight * (pool.ended / RATE_EVERY_MS - pool.rate)
      pool.ended = 0
      hasRate ||= pool.rate * AHEAD_MS >= 1
    }
    if (hasRate) return
    clearInterval(this.#rateTimer)
    this.#rateTimer = undefined
  }

  async #fetch(pool: PoolState, capacity: number): Promise<void> {
    const sentAtMs = performance.now()
    pool.lookedMs = sentAtMs
    try {
      const most = this.oneByOne ? 1 : MAX_JOBS_PER_FETCH
      const count = Math.max(1, Math.min(most, Math.floor(capacity / SAMPLES_PER_JOB)))
      if (performance.now() < pool.soleUntilMs) pool.served = []
      let jobs = await this.#queue.fetch(pool.name, count, pool.served)
      if (jobs.length === 0 && pool.served.length > 0) {
        // No other run has jobs. If a single run was served, fetches during the next SOLE_MS do not exclude it.
        if (pool.served.length === 1) pool.soleUntilMs = performance.now() + SOLE_MS
        pool.served = []
        jobs = await this.#queue.fetch(pool.name, count, [])
      }
      if (jobs.length > 0) pool.hadWorkMs = performance.now()
      for (const job of jobs) {
        const run = (job as { groupId?: string | null }).groupId
        if (run && !pool.served.includes(run)) pool.served.push(run)
        this.#host.take(pool.name, job, sentAtMs)
      }
      // Fewer jobs than requested mean that the queue is empty. A notification reports new jobs.
      if (jobs.length === count) pool.again = true
    } catch (error) {
      this.#log.debug({ err: (error as Error).message, pool: pool.name }, 'fetch failed')
    }
  }
}
