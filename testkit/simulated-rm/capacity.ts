import type { Clock } from './clock.ts'

/** How fast a server is. */
export interface CapacitySettings {
  /** Tokens a second of all rows together once `saturation` rows are worked on; Infinity: tokens cost no time. */
  tokensPerSecond: number
  /** Rows from which on the server is fully used. Below, each row has a fixed share of 1/saturation. */
  saturation: number
  /** Most rows worked on at once; the others wait in order of arrival. */
  running: number
  /** Multiplies all of it: 0.35 is a slow server. */
  speed: number
}

/** One row to work on. */
export interface Work {
  /** Called when it gets a place. Returns the tokens that are left to do (the prompt may be cached). */
  begin(): number
  /** Time it takes beside its tokens, in ms at speed 1: a drawn latency, or a reply written token by token. */
  fixedMs: number
  /** Called when it is done, with the model's own time, which may lie a little before the clock's. */
  done(atMs: number): void
}

/** A text in the model; opaque outside. */
export interface Ticket {
  /** Share of `fixedMs` that has passed, 0 to 1; 0 while the text waits or its tokens are worked on. */
  progress(): number
}

class Row implements Ticket {
  readonly work: Work
  readonly number: number
  readonly capacity: Capacity
  /** On the clock of its phase: when the phase ends. */
  due = 0
  /** Its place in the heap of its phase; -1: in none. */
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

/** Below this many tokens or ms a phase is over: what rounding leaves. */
const NOTHING = 1e-6

/**
 * Rows in one phase, all of which advance at one rate: one clock says how far each has come, and a heap which ends next,
 * so that an event costs the logarithm of their number.
 */
class Phase {
  /** How far every row in it has come since the phase was last empty. */
  passed = 0
  readonly #heap: Row[] = []

  get size(): number {
    return this.#heap.length
  }

  /** What is left of the row that ends next; Infinity without one. */
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

  /** Takes out the next row that has come to its end. */
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

/** Of rows that end at once, the one that came first. */
function isBefore(a: Row, b: Row): boolean {
  return a.due < b.due || (a.due === b.due && a.number < b.number)
}

/**
 * A server's capacity by processor sharing: all rows worked on advance together, `tokensPerSecond` is shared among
 * them. Exact between the clock's events: a row that waits gets its place at the very time another leaves, however
 * late the timer.
 */
export class Capacity {
  readonly #clock: Clock
  #settings: CapacitySettings
  /** Rows worked on; at most `running`. */
  readonly #rows = new Set<Row>()
  readonly #queue = new Set<Row>()
  /** In tokens: rows that share the rate. */
  readonly #tokens = new Phase()
  /** In ms at speed 1: rows whose tokens are done. */
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

  /** Rows worked on. */
  get running(): number {
    return this.#rows.size
  }

  /** Rows waiting for a place. */
  get waiting(): number {
    return this.#queue.size
  }

  /** Takes a row; it waits where no place is free. */
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
   * Forgets a row, whose client went away; its place is free at once. `onlyWaiting`: one that is worked on stays, as
   * where a batch on the device cannot be stopped. No effect on one that is done.
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

  /** Forgets all rows, as when the process dies. */
  clear(): void {
    this.#change(() => {
      this.#queue.clear()
      this.#rows.clear()
      this.#tokens.clear()
      this.#fixed.clear()
    })
  }

  /** Goes on at another speed from now. */
  set(change: Partial<CapacitySettings>): void {
    this.#change(() => {
      this.#settings = { ...this.#settings, ...change }
    })
  }

  /**
   * Stands still: rows are taken, none advances, until told otherwise. May be called from `begin`: the row that begins
   * is then the first that does not advance.
   */
  freeze(frozen: boolean): void {
    const set = () => {
      this.#frozen = frozen
    }
    if (this.#admitting) set()
    else this.#change(set)
  }

  /** Brings the rows to the clock's time. */
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
    // A row that hangs is in no heap.
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
      // By the step itself, not the difference of two times: rounding would leave the row short of its end.
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

  /** Gives free places to those that wait longest. */
  #admit(): void {
    for (const row of this.#queue) {
      if (this.#frozen || this.#rows.size >= this.#settings.running) return
      this.#queue.delete(row)
      this.#rows.add(row)
      this.#begin(row)
    }
  }

  /** A text that is done as soon as it begins needs no queue and no timer: benchmarks send only such. */
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
    // A row that hangs never ends.
    if (Number.isFinite(row.work.fixedMs)) this.#fixed.add(row, row.work.fixedMs)
  }

  /** Tokens a row does in a ms; 0 where tokens cost no time. */
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
