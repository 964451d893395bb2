import { type BalancingPolicy, roundRobin } from './policy.ts'
import type { PoolServer } from './pool-server.ts'
import type { Row } from './row.ts'
import { RowQueue } from './row-queue.ts'

/** Calls begun in one go; the rest a turn of the loop later, so that 5,000 waiting rows do not stall it for 0.2 s. */
const DISPATCH_BATCH = 64
/** Rows looked at in search of one that may go to a free server: those that failed elsewhere may not want any. */
const RETRY_SCAN = 64
/** Servers named in a failure's text. */
const DESCRIBED = 3
/** See `RouterOptions.patienceMs`. */
const PATIENCE_MS = 2_000
/** A server that pauses longer than this, by its own Retry-After, is not waited for. */
const PAUSE_WORTH_MS = 250

/**
 * The servers of one model and the rows that wait for them. A row is bound to a server only when that server has a
 * free slot. Rows that lost an attempt stand before the others.
 */
export class ModelPool {
  readonly model: string
  readonly servers: PoolServer[] = []
  /** Rows of the model that are not done, wherever they are. */
  rowCount = 0
  /** Rows somebody waits for one by one: few, and before all others. */
  readonly #urgent = new RowQueue()
  readonly #retries = new RowQueue()
  readonly #fresh = new RowQueue()
  readonly #policy: BalancingPolicy
  readonly #patienceMs: number
  readonly #start: (row: Row, server: PoolServer, nowMs: number) => void
  readonly #onShort: (pool: ModelPool) => void
  readonly #candidates: PoolServer[] = []
  readonly #eligible: PoolServer[] = []
  /** Rows admitted without waiting since the caller's code began to run. */
  #burst = 0
  readonly #endBurst = () => {
    this.#burst = 0
  }
  #microtask = false
  #immediate: NodeJS.Immediate | null = null

  /** `start` sends a row to a server; `onShort` hears that rows wait which more slots would let go. */
  constructor(
    model: string,
    start: (row: Row, server: PoolServer, nowMs: number) => void,
    onShort: (pool: ModelPool) => void,
    patienceMs = PATIENCE_MS,
    policy: BalancingPolicy = roundRobin(),
  ) {
    this.model = model
    this.#start = start
    this.#onShort = onShort
    this.#policy = policy
    this.#patienceMs = patienceMs
  }

  /** Rows waiting for a slot; not those in back-off. */
  get waiting(): number {
    return this.#urgent.size + this.#retries.size + this.#fresh.size
  }

  add(server: PoolServer): void {
    this.servers.push(server)
  }

  remove(server: PoolServer): void {
    const index = this.servers.indexOf(server)
    if (index >= 0) this.servers.splice(index, 1)
    this.#policy.forget(server.id)
  }

  /** Lets a new row go at once if a server has room and none waits before it, else queues it. */
  admit(row: Row, nowMs: number): void {
    const queue = row.request.urgent === true ? this.#urgent : this.#fresh
    if (this.waiting > 0 || this.#immediate !== null) {
      queue.push(row)
      this.pumpSoon()
      return
    }
    if (this.#burst >= DISPATCH_BATCH) {
      queue.push(row)
      this.#pumpNextTurn()
      return
    }
    if (this.#burst++ === 0) queueMicrotask(this.#endBurst)
    if (this.#gather(nowMs)) {
      this.#start(row, this.#policy.pick(this.#candidates, row.request.key), nowMs)
    } else {
      queue.push(row)
      this.#onShort(this)
    }
  }

  /** Queues a row that lost an attempt, before those that did not. */
  readmit(row: Row): void {
    this.#retries.push(row)
    row.timer = setTimeout(() => {
      row.timer = null
      this.pumpSoon()
    }, this.#patienceMs)
    this.pumpSoon()
  }

  /** What its servers do instead of taking a row, for the reason a row could not be scored. */
  describe(nowMs: number): string {
    if (this.servers.length === 0) return 'none is registered'
    const told = this.servers.slice(0, DESCRIBED).map((server) => server.describe(nowMs))
    const more = this.servers.length - told.length
    return `${told.join('; ')}${more > 0 ? `; and ${more} more` : ''}`
  }

  /** True when some server of the pool takes work in general. */
  anyUsable(nowMs: number): boolean {
    return this.servers.some((server) => server.isUsable(nowMs))
  }

  /** True when some server of the pool is healthy, whether or not this process has a slot of it now. */
  anyHealthy(nowMs: number): boolean {
    return this.servers.some((server) => server.isHealthy(nowMs))
  }

  /** True when a server that takes work has not been tried by the row. */
  anyUntried(row: Row, nowMs: number): boolean {
    return this.servers.some((server) => server.isUsable(nowMs) && !row.hasTried(server))
  }

  /**
   * Binds waiting rows after the present callback: a call's end is told from inside the HTTP parser, where no other
   * connection may be read from, and beginning a call reads.
   */
  pumpSoon(): void {
    if (this.#microtask || this.#immediate !== null) return
    this.#microtask = true
    queueMicrotask(() => {
      this.#microtask = false
      this.pump(performance.now())
    })
  }

  /** Binds waiting rows to servers with room, as many as there are, at most a batch at a time. */
  pump(nowMs: number): void {
    let left = DISPATCH_BATCH
    while (this.waiting > 0 && this.#gather(nowMs)) {
      if (left-- === 0) {
        this.#pumpNextTurn()
        return
      }
      if (
        !this.#bindFirst(this.#urgent, nowMs) &&
        !this.#bindRetry(nowMs) &&
        !this.#bindFirst(this.#fresh, nowMs)
      ) {
        break
      }
    }
    if (this.waiting > 0) this.#onShort(this)
  }

  #pumpNextTurn(): void {
    this.#immediate ??= setImmediate(() => {
      this.#immediate = null
      this.pump(performance.now())
    })
  }

  #gather(nowMs: number): boolean {
    const candidates = this.#candidates
    candidates.length = 0
    for (const server of this.servers) if (server.hasRoom(nowMs)) candidates.push(server)
    return candidates.length > 0
  }

  #bindFirst(queue: RowQueue, nowMs: number): boolean {
    const row = queue.first
    if (row === null) return false
    queue.remove(row)
    this.#start(row, this.#policy.pick(this.#candidates, row.request.key), nowMs)
    return true
  }

  #bindRetry(nowMs: number): boolean {
    let row = this.#retries.first
    for (let seen = 0; row !== null && seen < RETRY_SCAN; seen++, row = row.queueNext) {
      if (!this.#findEligible(row, nowMs)) continue
      this.#retries.remove(row)
      this.#start(row, this.#policy.pick(this.#eligible, row.request.key), nowMs)
      return true
    }
    return false
  }

  /**
   * Which servers with room a row may have that lost an attempt: while a server that takes work is untried, only such
   * ones, be they full now; when all were tried, or its patience is over, any but the last; when there is but that one,
   * that one.
   */
  #findEligible(row: Row, nowMs: number): boolean {
    const eligible = this.#eligible
    eligible.length = 0
    const last = row.tried?.at(-1)
    let untried = false
    let other = false
    // The timer that ends its patience is the row's own; without it the row waits no longer.
    if (row.timer !== null) {
      for (const server of this.servers) {
        if (!server.isUsable(nowMs) || server.busyUntilMs - nowMs > PAUSE_WORTH_MS) continue
        if (!row.hasTried(server)) untried = true
        if (server !== last) other = true
      }
    }
    for (const server of this.#candidates) {
      if (untried ? !row.hasTried(server) : !other || server !== last) eligible.push(server)
    }
    if (eligible.length > 1 && !untried && !other) {
      const index = last === undefined ? -1 : eligible.indexOf(last)
      if (index >= 0) eligible.splice(index, 1)
    }
    return eligible.length > 0
  }
}
