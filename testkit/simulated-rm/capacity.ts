import type { Clock } from './clock.ts'

export interface CapacitySettings {
  /** Total tokens per second at `saturation` jobs and above. Infinity if tokens cost no time. */
  tokensPerSecond: number
  /** Number of concurrent jobs that use the full rate. With fewer jobs, each gets 1/saturation of the rate. */
  saturation: number
  /** Maximum number of jobs in progress; further jobs wait in order of arrival. */
  running: number
  /** Factor of all speeds; 0.35 simulates a slow server. */
  speed: number
}

export interface Work {
  /** Called when the job starts. Returns the number of tokens to process, without those of a cached prompt. */
  begin(): number
  /** Time in addition to that of the tokens, in ms at speed 1: a drawn latency, or a reply written token by token. */
  fixedMs: number
  /** Called at the end with the model's time, which may be slightly before the clock's. */
  done(atMs: number): void
}

export interface Ticket {
  /** Completed share of `fixedMs`, 0 to 1; 0 while the job waits or processes tokens. */
  progress(): number
}

class Job implements Ticket {
  readonly work: Work
  readonly number: number
  readonly capacity: Capacity
  /** The job's phase ends when the phase's `passed` reaches this value. */
  due = 0
  /** Position in the heap of its phase, or -1 if it is in no heap. */
  at = -1
  phase: 'waiting' | 'tokens' | 'fixed' | 'over' = 'waiting'

  constructor(work: Work, number: number, capacity: Capacity) {
    this.work = work
    this.number = number
    this.capacity = capacity
  }

  progress(): number {
    return this.capacity.progressOf(this)
  }
}

/** A job with fewer tokens or ms left than this has ended its phase; the rest is rounding error. */
const NOTHING = 1e-6

/**
 * Jobs in one phase, which all advance at the same rate. `passed` is their common progress. A heap orders the jobs by
 * their ends, so an event takes logarithmic time in the number of jobs.
 */
class Phase {
  /** Progress of every job since the phase was last empty. */
  passed = 0
  readonly #heap: Job[] = []

  get size(): number {
    return this.#heap.length
  }

  /** Remaining work of the job that ends next; Infinity if there is none. */
  get left(): number {
    const [next] = this.#heap
    return next === undefined ? Number.POSITIVE_INFINITY : Math.max(0, next.due - this.passed)
  }

  add(job: Job, amount: number): void {
    if (this.#heap.length === 0) this.passed = 0
    job.due = this.passed + amount
    job.at = this.#heap.push(job) - 1
    this.#up(job)
  }

  takeDone(): Job | undefined {
    const [next] = this.#heap
    if (next === undefined || next.due - this.passed >= NOTHING) return undefined
    this.remove(next)
    return next
  }

  remove(job: Job): void {
    const { at } = job
    if (this.#heap[at] !== job) return
    const last = this.#heap.pop() as Job
    job.at = -1
    if (last === job) return
    this.#put(last, at)
    this.#up(last)
    this.#down(last)
  }

  clear(): void {
    this.#heap.length = 0
  }

  #put(job: Job, at: number): void {
    this.#heap[at] = job
    job.at = at
  }

  #up(job: Job): void {
    while (job.at > 0) {
      const above = this.#heap[(job.at - 1) >> 1] as Job
      if (!isBefore(job, above)) return
      const { at } = job
      this.#put(job, above.at)
      this.#put(above, at)
    }
  }

  #down(job: Job): void {
    for (;;) {
      const left = this.#heap[2 * job.at + 1]
      const right = this.#heap[2 * job.at + 2]
      if (left === undefined) return
      const below = right !== undefined && isBefore(right, left) ? right : left
      if (!isBefore(below, job)) return
      const { at } = job
      this.#put(job, below.at)
      this.#put(below, at)
    }
  }
}

/** Of jobs that end together, the earliest to arrive comes first. */
function isBefore(a: Job, b: Job): boolean {
  return a.due < b.due || (a.due === b.due && a.number < b.number)
}

/**
 * A server's capacity, modeled by processor sharing: all jobs in progress advance together and share
 * `tokensPerSecond`. The model is exact between clock events: a waiting job starts at the exact time another ends,
 * however late the timer is.
 */
export class Capacity {
  readonly #clock: Clock
  #settings: CapacitySettings
  readonly #jobs = new Set<Job>()
  readonly #queue = new Set<Job>()
  /** Jobs that share the token rate; `passed` counts tokens. */
  readonly #tokens = new Phase()
  /** Jobs whose tokens are done; `passed` counts ms at speed 1. */
  readonly #fixed = new Phase()
  #count = 0
  #atMs: number
  #frozen = false
  #admitting = false
  #armed: { atMs: number; disarm: () => void } | null = null

  constructor(clock: Clock, settings: CapacitySettings) {
    this.#clock = clock
    this.#settings = settings
    this.#atMs = clock.now()
  }

  get running(): number {
    return this.#jobs.size
  }

  get waiting(): number {
    return this.#queue.size
  }

  submit(work: Work): Ticket {
    const job = new Job(work, this.#count++, this)
    if (this.#takesNoTime(work)) {
      this.#jobs.add(job)
      this.#begin(job)
      if (this.#frozen) return job
      this.#jobs.delete(job)
      this.#fixed.remove(job)
      job.phase = 'over'
      work.done(this.#clock.now())
      return job
    }
    this.#change(() => this.#queue.add(job))
    return job
  }

  /**
   * Removes a job whose client disconnected and frees its slot immediately. With `onlyWaiting`, a job in progress is
   * not removed, as on a device whose batch cannot be stopped. A finished job is not affected.
   */
  remove(ticket: Ticket, onlyWaiting = false): void {
    const job = ticket as Job
    if (this.#queue.delete(job) || onlyWaiting || !this.#jobs.has(job)) return
    this.#change(() => {
      this.#jobs.delete(job)
      this.#tokens.remove(job)
      this.#fixed.remove(job)
    })
  }

  clear(): void {
    this.#change(() => {
      this.#queue.clear()
      this.#jobs.clear()
      this.#tokens.clear()
      this.#fixed.clear()
    })
  }

  set(change: Partial<CapacitySettings>): void {
    this.#change(() => {
      this.#settings = { ...this.#settings, ...change }
    })
  }

  /**
   * Freezes or resumes all jobs. While frozen, jobs are accepted and none advances. If {@link Work.begin} calls this
   * method, the job that begins is frozen too.
   */
  freeze(frozen: boolean): void {
    const set = () => {
      this.#frozen = frozen
    }
    if (this.#admitting) set()
    else this.#change(set)
  }

  catchUp(): void {
    this.#change(() => {})
  }

  progressOf(job: Job): number {
    this.catchUp()
    if (job.phase === 'over') return 1
    if (job.phase !== 'fixed') return 0
    const { fixedMs } = job.work
    if (fixedMs === 0) return 1
    // A job with infinite `fixedMs` is in no heap.
    return job.at === -1 ? 0 : 1 - (job.due - this.#fixed.passed) / fixedMs
  }

  #change(change: () => void): void {
    const done = this.#advance()
    change()
    this.#admit()
    done.push(...this.#advance())
    this.#arm()
    for (const [job, atMs] of done) job.work.done(atMs)
  }

  #advance(): [Job, number][] {
    const done: [Job, number][] = []
    const end = (job: Job) => {
      job.phase = 'over'
      this.#jobs.delete(job)
      done.push([job, this.#atMs])
    }
    const toMs = this.#clock.now()
    for (;;) {
      if (this.#frozen) {
        this.#atMs = toMs
        return done
      }
      const stepMs = this.#toNextEventMs()
      const untilMs = Math.min(this.#atMs + stepMs, toMs)
      // The phases advance by `stepMs` itself. The difference of two times is rounded, which could leave the job
      // unfinished.
      const passedMs = untilMs < toMs ? stepMs : Math.min(stepMs, toMs - this.#atMs)
      this.#atMs = untilMs
      this.#tokens.passed += this.#rate() * passedMs
      this.#fixed.passed += this.#settings.speed * passedMs
      const before = done.length
      for (let job = this.#tokens.takeDone(); job; job = this.#tokens.takeDone()) {
        if (job.work.fixedMs > 0) this.#beginFixed(job)
        else end(job)
      }
      for (let job = this.#fixed.takeDone(); job; job = this.#fixed.takeDone()) end(job)
      if (done.length > before) this.#admit()
      else if (this.#atMs >= toMs) return done
    }
  }

  #admit(): void {
    for (const job of this.#queue) {
      if (this.#frozen || this.#jobs.size >= this.#settings.running) return
      this.#queue.delete(job)
      this.#jobs.add(job)
      this.#begin(job)
    }
  }

  /** Whether a job ends as soon as it begins, like most jobs of benchmarks. Such a job needs no queue and no timer. */
  #takesNoTime(work: Work): boolean {
    const { tokensPerSecond, running } = this.#settings
    const isFree = work.fixedMs === 0 && tokensPerSecond === Number.POSITIVE_INFINITY
    return isFree && !this.#frozen && this.#queue.size === 0 && this.#jobs.size < running
  }

  #begin(job: Job): void {
    this.#admitting = true
    const tokens = job.work.begin()
    this.#admitting = false
    if (tokens > 0 && Number.isFinite(this.#settings.tokensPerSecond)) {
      job.phase = 'tokens'
      this.#tokens.add(job, tokens)
    } else this.#beginFixed(job)
  }

  #beginFixed(job: Job): void {
    job.phase = 'fixed'
    // A job with infinite `fixedMs` never ends.
    if (Number.isFinite(job.work.fixedMs)) this.#fixed.add(job, job.work.fixedMs)
  }

  /** Tokens that each job processes per ms; 0 if no job processes tokens. */
  #rate(): number {
    if (this.#tokens.size === 0) return 0
    const { tokensPerSecond, saturation, speed } = this.#settings
    return (tokensPerSecond * speed) / 1000 / Math.max(this.#tokens.size, saturation)
  }

  #toNextEventMs(): number {
    const { speed } = this.#settings
    const fixedMs = this.#fixed.left / speed
    return this.#tokens.size === 0 ? fixedMs : Math.min(fixedMs, this.#tokens.left / this.#rate())
  }

  #arm(): void {
    const nextMs = this.#frozen ? Number.POSITIVE_INFINITY : this.#atMs + this.#toNextEventMs()
    if (this.#armed?.atMs === nextMs) return
    this.#armed?.disarm()
    this.#armed = null
    if (nextMs === Number.POSITIVE_INFINITY) return
    const disarm = this.#clock.at(nextMs, () => {
      this.#armed = null
      this.catchUp()
    })
    this.#armed = { atMs: nextMs, disarm }
  }
}
