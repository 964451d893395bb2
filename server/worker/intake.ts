import type { Logger } from '../log.ts'
import {
  type FetchedJob,
  FUNCTIONS_POOL,
  INTERACTIVE_POOL,
  isPoolOfLimiter,
  type JobQueue,
  RULES_POOL,
  SERVICES_POOL,
} from '../store/job-queue.ts'

/** Samples a worker takes of rules: they end within milliseconds, more would only wait here instead of there. */
const RULES_CAPACITY = 256
/** Samples somebody waits for one by one: they are few, and a slow model must not hold the others. */
const INTERACTIVE_CAPACITY = 1_024
/** Samples it takes of rules that ask a service: a sandbox takes 64 programs at once, a sample is up to ten. */
const SERVICES_CAPACITY = 64
/** Most samples of a worker, whatever its share: 5,000 rewards of 40 s wait side by side on two workers. */
const MAX_SAMPLES = 4_096
/** Most text held, bytes of characters: a worker stays under 300 MB. */
const MAX_TEXT_CHARS = 48 << 20
/** A notification may be lost; a poll stands behind it. */
const POLL_MS = 1_000
/** A limiter without work for so long is polled as seldom: there may be hundreds, and a notification is the rule. */
const QUIET_MS = 30_000
/** A run that was alone is taken to be so for this long. */
const SOLE_MS = 200
/**
 * However small a worker's share, it may hold what it scores in this time: a model that answers in 2 ms empties twice
 * a share of 32 in 16 ms, and fetching takes 5.
 */
const AHEAD_MS = 100
const RATE_EVERY_MS = 125
/** Halves what is remembered of a pool's rate in 4 s without samples. */
const IDLE_WEIGHT = 0.02
/** Jobs hold 16 to 64 samples; asking for capacity ÷ 48 of them overshoots by a chunk at most. */
const SAMPLES_PER_JOB = 48
const MAX_JOBS_PER_FETCH = 16

/** One queue this worker serves. */
interface PoolState {
  name: string
  /** Null for what no reward model scores. */
  model: string | null
  inUse: number
  fetching: boolean
  again: boolean
  /** Runs served since the last full round. */
  served: string[]
  /** Until when there is known to be one run only, on the clock of `performance.now()`. */
  soleUntilMs: number
  /** Samples ended a millisecond, smoothed over about half a second of work. */
  rate: number
  ended: number
  /** When it was last looked at, and when it last had work. */
  lookedMs: number
  hadWorkMs: number
}

/** What the intake asks of its worker. */
export interface IntakeHost {
  /** Calls in flight this worker may have of a model now, over its servers. */
  slotsOf(model: string): number
  /** Its equal part of the model's limit, whether it holds it now or not. */
  fairShareOf(model: string): number
  /** There is work for a model and no slot: ask for a lease. */
  wantSlots(model: string): void
  /** Samples it may hold of functions now: as many as they take side by side, and some ahead. */
  functionCapacity(): number
  /** Samples it may hold of a limiter's pool now. */
  limiterCapacity(pool: string): number
  take(pool: string, job: FetchedJob): void
}

/**
 * Takes jobs when it has capacity for their samples: late binding, so that a slow server never holds a step. Between
 * the runs of a pool it goes round robin; interactive work is looked at first.
 */
export class Intake {
  readonly #queue: JobQueue
  readonly #host: IntakeHost
  readonly #log: Logger
  readonly #pools = new Map<string, PoolState>()
  readonly #timer: NodeJS.Timeout
  readonly #rateTimer: NodeJS.Timeout
  #textChars = 0
  #paused = false
  #halted = false

  constructor(queue: JobQueue, host: IntakeHost, log: Logger) {
    this.#queue = queue
    this.#host = host
    this.#log = log
    this.#timer = setInterval(() => this.#poll(), POLL_MS)
    this.#rateTimer = setInterval(() => this.#measureRates(), RATE_EVERY_MS)
    this.add(INTERACTIVE_POOL, null)
    this.add(RULES_POOL, null)
    this.add(FUNCTIONS_POOL, null)
    this.add(SERVICES_POOL, null)
  }

  /** Serves a pool from now on. */
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

  /** Samples it would hold at most now, over all pools. */
  get capacity(): number {
    let n = 0
    for (const pool of this.#pools.values()) n += this.#capacityOf(pool)
    return Math.min(n, MAX_SAMPLES)
  }

  inUseOf(name: string): number {
    return this.#pools.get(name)?.inUse ?? 0
  }

  /** Samples were taken (positive) or ended (negative). */
  count(name: string, samples: number, textChars: number): void {
    const pool = this.#pools.get(name)
    if (pool) {
      pool.inUse += samples
      if (samples < 0) pool.ended -= samples
    }
    this.#textChars += textChars
    if (samples < 0) this.pump(name)
  }

  /** Takes nothing while halted: results cannot be written. */
  set halted(halted: boolean) {
    this.#halted = halted
    if (!halted) this.pumpAll()
  }

  /** Takes nothing while paused: a sample that lost two workers runs alone, or the worker is stopping. */
  set paused(paused: boolean) {
    this.#paused = paused
    if (!paused) this.pumpAll()
  }

  /** Takes one job at a time: what was taken last lost two workers, and its like may follow. */
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

  /** Looks for work of a pool if there is capacity. */
  pump(name: string): void {
    const pool = this.#pools.get(name)
    if (!pool || this.#paused || this.#halted) return
    if (pool.fetching) {
      pool.again = true
      return
    }
    if (pool.model !== null && this.#shareOf(pool.model) === 0) {
      // Without a slot nothing is taken: where a limit is smaller than the workers, one of them has it.
      this.#host.wantSlots(pool.model)
      return
    }
    const capacity = Math.min(this.#capacityOf(pool), MAX_SAMPLES - this.inUse + pool.inUse)
    // Fetching at every ended sample would be a query a sample: half the capacity, or a quarter of a large one, is the
    // least worth asking for.
    const least = Math.min(capacity / 2, Math.max(SAMPLES_PER_JOB, capacity / 4))
    if (capacity - pool.inUse < Math.max(1, least)) return
    if (this.#textChars > MAX_TEXT_CHARS && this.inUse > 0) return
    pool.fetching = true
    void this.#fetch(pool, capacity - pool.inUse).finally(() => {
      pool.fetching = false
      if (pool.again) {
        pool.again = false
        this.pump(name)
      }
    })
  }

  close(): void {
    clearInterval(this.#timer)
    clearInterval(this.#rateTimer)
    this.#paused = true
  }

  #capacityOf(pool: PoolState): number {
    if (pool.name === INTERACTIVE_POOL) return INTERACTIVE_CAPACITY
    if (pool.name === FUNCTIONS_POOL) return Math.min(this.#host.functionCapacity(), MAX_SAMPLES)
    if (pool.name === SERVICES_POOL) return SERVICES_CAPACITY
    if (isPoolOfLimiter(pool.name))
      return Math.min(this.#host.limiterCapacity(pool.name), MAX_SAMPLES)
    if (pool.model === null) return RULES_CAPACITY
    const share = this.#shareOf(pool.model)
    if (share === 0) return 0
    const ahead = Math.ceil(pool.rate * AHEAD_MS)
    return Math.min(Math.max(2 * share, share + 16, share + ahead), MAX_SAMPLES)
  }

  /** What it holds, or may have as soon as it asks: others give way to a fair share within a renewal. */
  #shareOf(model: string): number {
    return Math.max(this.#host.slotsOf(model), this.#host.fairShareOf(model))
  }

  #measureRates(): void {
    for (const pool of this.#pools.values()) {
      // Between two batches it is remembered for some seconds: the next one is seldom slower.
      const weight = pool.inUse === 0 && pool.ended === 0 ? IDLE_WEIGHT : 0.3
      pool.rate += weight * (pool.ended / RATE_EVERY_MS - pool.rate)
      pool.ended = 0
    }
  }

  async #fetch(pool: PoolState, capacity: number): Promise<void> {
    pool.lookedMs = performance.now()
    try {
      const most = this.oneByOne ? 1 : MAX_JOBS_PER_FETCH
      const count = Math.max(1, Math.min(most, Math.floor(capacity / SAMPLES_PER_JOB)))
      if (performance.now() < pool.soleUntilMs) pool.served = []
      let jobs = await this.#queue.fetch(pool.name, count, pool.served)
      if (jobs.length === 0 && pool.served.length > 0) {
        // Nobody else waits: for a while the question is not worth a query.
        if (pool.served.length === 1) pool.soleUntilMs = performance.now() + SOLE_MS
        pool.served = []
        jobs = await this.#queue.fetch(pool.name, count, [])
      }
      if (jobs.length > 0) pool.hadWorkMs = performance.now()
      for (const job of jobs) {
        const run = (job as { groupId?: string | null }).groupId
        if (run && !pool.served.includes(run)) pool.served.push(run)
        this.#host.take(pool.name, job)
      }
      // Fewer than asked for: there are no more, and the next ones announce themselves.
      if (jobs.length === count) pool.again = true
    } catch (error) {
      this.#log.debug({ err: (error as Error).message, pool: pool.name }, 'fetch failed')
    }
  }
}
