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

/** A row in the model; opaque outside. */
export interface Ticket {
  /** Share of `fixedMs` that has passed, 0 to 1; 0 while its tokens are worked on. */
  progress(): number
}

class Row implements Ticket {
  readonly work: Work
  readonly capacity: Capacity
  tokensLeft = 0
  fixedLeftMs: number
  working = false

  constructor(work: Work, capacity: Capacity) {
    this.work = work
    this.capacity = capacity
    this.fixedLeftMs = work.fixedMs
  }

  progress(): number {
    this.capacity.catchUp()
    if (this.work.fixedMs === 0) return this.tokensLeft > 0 ? 0 : 1
    return 1 - this.fixedLeftMs / this.work.fixedMs
  }
}

/** Below this many tokens or ms a row is done: what rounding leaves. */
const NOTHING = 1e-6

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
  #sharing = 0
  #atMs: number
  #frozen = false
  #admitting = false
  #disarm: (() => void) | null = null

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
    const row = new Row(work, this)
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
    this.#change(() => this.#leave(row))
  }

  /** Forgets all rows, as when the process dies. */
  clear(): void {
    this.#change(() => {
      this.#queue.clear()
      this.#rows.clear()
      this.#sharing = 0
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
    const toMs = this.#clock.now()
    for (;;) {
      if (this.#frozen) {
        this.#atMs = toMs
        return done
      }
      const stepMs = this.#toNextEventMs()
      const untilMs = Math.min(this.#atMs + stepMs, toMs)
      // By the step itself, not the difference of two times: rounding would leave the row short of its end.
      this.#progress(untilMs < toMs ? stepMs : Math.min(stepMs, toMs - this.#atMs))
      this.#atMs = untilMs
      let ended = 0
      for (const row of this.#rows) {
        if (row.tokensLeft > 0) continue
        if (row.working) {
          row.working = false
          this.#sharing -= 1
        }
        if (row.fixedLeftMs > 0) continue
        this.#rows.delete(row)
        done.push([row, this.#atMs])
        ended += 1
      }
      if (ended > 0) this.#admit()
      else if (this.#atMs >= toMs) return done
    }
  }

  /** Gives free places to those that wait longest. */
  #admit(): void {
    for (const row of this.#queue) {
      if (this.#frozen || this.#rows.size >= this.#settings.running) return
      this.#queue.delete(row)
      this.#rows.add(row)
      this.#admitting = true
      const tokens = row.work.begin()
      this.#admitting = false
      row.tokensLeft = Number.isFinite(this.#settings.tokensPerSecond) ? tokens : 0
      if (row.tokensLeft > 0) {
        row.working = true
        this.#sharing += 1
      }
    }
  }

  #leave(row: Row): void {
    this.#rows.delete(row)
    if (row.working) this.#sharing -= 1
  }

  /** Tokens a row does in a ms. */
  #rate(): number {
    const { tokensPerSecond, saturation, speed } = this.#settings
    return (tokensPerSecond * speed) / 1000 / Math.max(this.#sharing, saturation)
  }

  #toNextEventMs(): number {
    const rate = this.#rate()
    let next = Number.POSITIVE_INFINITY
    for (const row of this.#rows) {
      const ms = row.working ? row.tokensLeft / rate : row.fixedLeftMs / this.#settings.speed
      if (ms < next) next = ms
    }
    return next
  }

  #progress(ms: number): void {
    if (ms <= 0) return
    const tokens = this.#rate() * ms
    const fixedMs = this.#settings.speed * ms
    for (const row of this.#rows) {
      if (row.working) {
        row.tokensLeft -= tokens
        if (row.tokensLeft < NOTHING) row.tokensLeft = 0
      } else {
        row.fixedLeftMs -= fixedMs
        if (row.fixedLeftMs < NOTHING) row.fixedLeftMs = 0
      }
    }
  }

  #arm(): void {
    this.#disarm?.()
    this.#disarm = null
    if (this.#frozen || this.#rows.size === 0) return
    const nextMs = this.#toNextEventMs()
    if (nextMs === Number.POSITIVE_INFINITY) return
    this.#disarm = this.#clock.at(this.#atMs + nextMs, () => this.catchUp())
  }
}
