import type { Clock } from './clock.ts'

/** Speed of a server. */
export interface CapacitySettings {
  /** Total tokens per second at `saturation` rows and above; Infinity: tokens cost no time. */
  tokensPerSecond: number
  /** Number of rows that fully uses the server. Below it, each row has a fixed share of 1/saturation. */
  saturation: number
  /** Maximum of rows in progress; others wait in order of arrival. */
  running: number
  /** Factor of all speeds: 0.35 is a slow server. */
  speed: number
}

/** One row of work. */
export interface Work {
  /** Called when the row starts. Returns the remaining tokens (the prompt may be cached). */
  begin(): number
  /** Time in addition to the tokens, in ms at speed 1: a drawn latency, or a reply written token by token. */
  fixedMs: number
  /** Called at the end with the model's own time, which may be slightly before the clock's. */
  done(atMs: number): void
}

/** A row in the model; opaque to callers. */
export interface Ticket {
  /** Completed share of `fixedMs`, 0 to 1; 0 while the row waits or processes tokens. */
  progress(): number
}

class Row implements Ticket {
  readonly work: Work
  readonly number: number
  readonly capacity: Capacity
  /** End of the phase, on the phase's clock. */
  due = 0
  /** Position in its phase's heap; -1: in none. */
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

/** A phase with less than this many tokens or ms left is over; the rest is rounding error. */
const NOTHING = 1e-6

/**
 * Rows in one phase, which all advance at the same rate. One clock holds their common progress and a heap the next end, so
 * an event costs the logarithm of their number.
 */
class Phase {
  /** Progress of every row since the phase was last empty. */
  passed = 0
  readonly #heap: Row[] = []

  get size(): number {
    return this.#heap.length
  }

  /** Remaining work of the row that ends next; Infinity without one. */
  get left(): number {
    const [next] = this.#heap
    return next === undefined ? Number.POSITIVE_INFINITY : Math.max(0, next.due - this.passed)
  }

  add(row: Row, amount: number): void {
    if (this.#heap.length === 0) this.passed = 0
    row.due = this.passed + amount
    row.at = this.#heap.push(row) - 1
    this.#up(row)
  }

  /** Removes the next row that has ended. */
  takeDone(): Row | undefined {
    const [next] = this.#heap
    if (next === undefined || next.due - this.passed >= NOTHING) return undefined
    this.remove(next)
    return next
  }

  remove(row: Row): void {
    const { at } = row
    if (this.#heap[at] !== row) return
    const last = this.#heap.pop() as Row
    row.at = -1
    if (last === row) return
    this.#put(last, at)
    this.#up(last)
    this.#down(last)
  }

  clear(): void {
    this.#heap.length = 0
  }

  #put(row: Row, at: number): void {
    this.#heap[at] = row
    row.at = at
  }

  #up(row: Row): void {
    while (row.at > 0) {
      const above = this.#heap[(row.at - 1) >> 1] as Row
      if (!isBefore(row, above)) return
      const { at } = row
      this.#put(row, above.at)
      this.#put(above, at)
    }
  }

  #down(row: Row): void {
    for (;;) {
      const left = this.#heap[2 * row.at + 1]
      const right = this.#heap[2 * row.at + 2]
      if (left === undefined) return
      const below = right !== undefined && isBefore(right, left) ? right : left
      if (!isBefore(below, row)) return
      const { at } = row
      this.#put(row, below.at)
      this.#put(below, at)
    }
  }
}

/** Of rows that end together, the earliest to arrive comes first. */
function isBefore(a: Row, b: Row): boolean {
  return a.due < b.due || (a.due === b.due && a.number < b.number)
}

/**
 * A server's capacity by processor sharing: all rows in progress advance together and share `tokensPerSecond`. The model is
 * exact between clock events: a waiting row starts at the exact time another ends, however late the timer is.
 */
export class Capacity {
  readonly #clock: Clock
  #settings: CapacitySettings
  /** Rows in progress; at most `running`. */
  readonly #rows = new Set<Row>()
  readonly #queue = new Set<Row>()
  /** Rows that share the token rate; the clock counts tokens. */
  readonly #tokens = new Phase()
  /** Rows whose tokens are done; the clock counts ms at speed 1. */
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

  /** Number of rows in progress. */
  get running(): number {
    return this.#rows.size
  }

  /** Number of waiting rows. */
  get waiting(): number {
    return this.#queue.size
  }

  /** Adds a row; it waits if the capacity is used up. */
  submit(work: Work): Ticket {
    const row = new Row(work, this.#count++, this)
    if (this.#takesNoTime(work)) {
      this.#rows.add(row)
      this.#begin(row)
      if (this.#frozen) return row
      this.#rows.delete(row)
      this.#fixed.remove(row)
      row.phase = 'over'
      work.done(this.#clock.now())
      return row
    }
    this.#change(() => this.#queue.add(row))
    return row
  }

  /**
   * Removes a row whose client disconnected and frees its slot at once. `onlyWaiting`: a row in progress stays, as on a
   * device whose batch cannot be stopped. No effect on a finished row.
   */
  remove(ticket: Ticket, onlyWaiting = false): void {
    const row = ticket as Row
    if (this.#queue.delete(row) || onlyWaiting || !this.#rows.has(row)) return
    this.#change(() => {
      this.#rows.delete(row)
      this.#tokens.remove(row)
      this.#fixed.remove(row)
    })
  }

  /** Removes all rows, as when the process dies. */
  clear(): void {
    this.#change(() => {
      this.#queue.clear()
      this.#rows.clear()
      this.#tokens.clear()
      this.#fixed.clear()
    })
  }

  /** Changes the speed from now on. */
  set(change: Partial<CapacitySettings>): void {
    this.#change(() => {
      this.#settings = { ...this.#settings, ...change }
    })
  }

  /**
   * Freezes or resumes: while frozen, rows are accepted and none advances. May be called from `begin`; that row is then the
   * first not to advance.
   */
  freeze(frozen: boolean): void {
    const set = () => {
      this.#frozen = frozen
    }
    if (this.#admitting) set()
    else this.#change(set)
  }

  /** Advances the rows to the clock's time. */
  catchUp(): void {
    this.#change(() => {})
  }

  /** As {@link Ticket.progress}. */
  progressOf(row: Row): number {
    this.catchUp()
    if (row.phase === 'over') return 1
    if (row.phase !== 'fixed') return 0
    const { fixedMs } = row.work
    if (fixedMs === 0) return 1
    // A frozen row is in no heap.
    return row.at === -1 ? 0 : 1 - (row.due - this.#fixed.passed) / fixedMs
  }

  #change(change: () => void): void {
    const done = this.#advance()
    change()
    this.#admit()
    done.push(...this.#advance())
    this.#arm()
    for (const [row, atMs] of done) row.work.done(atMs)
  }

  #advance(): [Row, number][] {
    const done: [Row, number][] = []
    const end = (row: Row) => {
      row.phase = 'over'
      this.#rows.delete(row)
      done.push([row, this.#atMs])
    }
    const toMs = this.#clock.now()
    for (;;) {
      if (this.#frozen) {
        this.#atMs = toMs
        return done
      }
      const stepMs = this.#toNextEventMs()
      const untilMs = Math.min(this.#atMs + stepMs, toMs)
      // Advances by the step itself: a difference of two times would round and leave the row unfinished.
      const passedMs = untilMs < toMs ? stepMs : Math.min(stepMs, toMs - this.#atMs)
      this.#atMs = untilMs
      this.#tokens.passed += this.#rate() * passedMs
      this.#fixed.passed += this.#settings.speed * passedMs
      const before = done.length
      for (let row = this.#tokens.takeDone(); row; row = this.#tokens.takeDone()) {
        if (row.work.fixedMs > 0) this.#beginFixed(row)
        else end(row)
      }
      for (let row = this.#fixed.takeDone(); row; row = this.#fixed.takeDone()) end(row)
      if (done.length > before) this.#admit()
      else if (this.#atMs >= toMs) return done
    }
  }

  /** Starts the longest-waiting rows while slots are free. */
  #admit(): void {
    for (const row of this.#queue) {
      if (this.#frozen || this.#rows.size >= this.#settings.running) return
      this.#queue.delete(row)
      this.#rows.add(row)
      this.#begin(row)
    }
  }

  /** Rows that end as soon as they begin need no queue and no timer; benchmarks send only such rows. */
  #takesNoTime(work: Work): boolean {
    const { tokensPerSecond, running } = this.#settings
    const isFree = work.fixedMs === 0 && tokensPerSecond === Number.POSITIVE_INFINITY
    return isFree && !this.#frozen && this.#queue.size === 0 && this.#rows.size < running
  }

  #begin(row: Row): void {
    this.#admitting = true
    const tokens = row.work.begin()
    this.#admitting = false
    if (tokens > 0 && Number.isFinite(this.#settings.tokensPerSecond)) {
      row.phase = 'tokens'
      this.#tokens.add(row, tokens)
    } else this.#beginFixed(row)
  }

  #beginFixed(row: Row): void {
    row.phase = 'fixed'
    // A frozen row never ends.
    if (Number.isFinite(row.work.fixedMs)) this.#fixed.add(row, row.work.fixedMs)
  }

  /** Tokens that a row processes per ms; 0 if tokens cost no time. */
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
