import { HedgeBudget } from './hedge-budget.ts'
import { FairQueue } from './fair-queue.ts'
import { GroupBinding } from './group-binding.ts'
import type { BalancingPolicy, PolicyName } from './policies/policy.ts'
import { DEFAULT_POLICY, policyNamed } from './policies/registry.ts'
import type { PoolServer } from './pool-server.ts'
import { RetryBudget } from './retry-budget.ts'
import { serversForRetry } from './retry-servers.ts'
import type { HedgeKind, RouterOptions } from './router-types.ts'
import type { Row } from './routed-sample.ts'
import { RowQueue } from './sample-queue.ts'
import { TokenEstimate } from './token-estimate.ts'

/** Calls begun in one go; the rest a turn of the loop later, so that 5,000 waiting rows do not stall it for 0.2 s. */
const DISPATCH_BATCH = 64
/** Rows looked at in search of one that may go to a free server: those that failed elsewhere may not want any. */
const RETRY_SCAN = 64
/** Weight of the newest row in the mean cost: some 64 rows are remembered. */
const COST_STEP = 1 / 64
/** Servers named in a failure's text. */
const DESCRIBED = 3
/** See `RouterOptions.patienceMs`. */
const PATIENCE_MS = 2_000
/** See `RouterOptions.queueRows`. */
const QUEUE_ROWS = 10_000
/** Calls that must have ended before a server's times are believed. */
const SEEN_FOR_TIMES = 20

/** What a pool tells its router. */
export interface ModelPoolListener {
  /** Sends a row to a server with room. */
  start(row: Row, server: PoolServer, hedge: HedgeKind | null, nowMs: number): void
  /** A server is to be asked whether it works. */
  ask(pool: ModelPool, server: PoolServer, nowMs: number): void
  /** Rows wait which more slots or permits would let go. */
  onShort(pool: ModelPool): void
}

/**
 * The servers of one model and the rows that wait for them. A row is bound to a server only when that server has a
 * free slot. In order: hedges of rows whose server went silent, rows that lost an attempt, then the others by their
 * class, run, deadline and size. A server that took up a group goes on with it while others take up the next.
 */
export class ModelPool {
  readonly model: string
  readonly servers: PoolServer[] = []
  readonly estimate = new TokenEstimate()
  readonly hedgeBudget = new HedgeBudget()
  readonly retryBudget = new RetryBudget()
  /** Rows of the model that are not done, wherever they are; canaries are not among them. */
  rowCount = 0
  /** Canaries that are out: they are given up with the last row. */
  readonly canaries = new Set<Row>()
  /** Judges, and scorers of one's own, which may ask one: never sent twice, never shared. */
  asksOnce = false
  readonly #hedges = new RowQueue()
  readonly #retries = new RowQueue()
  readonly #fresh: FairQueue<Row>
  readonly #groups: GroupBinding
  readonly #patienceMs: number
  readonly #queueRows: number
  readonly #options: RouterOptions
  readonly #listener: ModelPoolListener
  readonly #candidates: PoolServer[] = []
  readonly #eligible: PoolServer[] = []
  #policy: BalancingPolicy
  #pinnedWaiting = 0
  /** Mean cost of a row begun, of its tokens. */
  #costShare = 1
  /** Rows admitted without waiting since the caller's code began to run. */
  #burst = 0
  readonly #endBurst = () => {
    this.#burst = 0
  }
  #microtask = false
  #immediate: NodeJS.Immediate | null = null

  constructor(model: string, listener: ModelPoolListener, options: RouterOptions) {
    this.model = model
    this.#listener = listener
    this.#options = options
    this.#patienceMs = options.patienceMs ?? PATIENCE_MS
    this.#queueRows = options.queueRows ?? QUEUE_ROWS
    this.#policy = this.#make(options.policy ?? DEFAULT_POLICY)
    this.#fresh = new FairQueue<Row>()
    this.#groups = new GroupBinding(this.#fresh, this.servers)
  }

  /** Another policy from now on; null: the router's default. */
  set policy(name: PolicyName | null) {
    const wanted = name ?? this.#options.policy ?? DEFAULT_POLICY
    if (wanted === this.#policy.name) return
    this.#policy = this.#make(wanted)
    for (const server of this.servers) this.#unpin(server)
    this.pumpSoon()
  }

  /** Rows waiting for a slot, hedges among them; not those in back-off. */
  get waiting(): number {
    return this.#hedges.size + this.#retries.size + this.#fresh.size + this.#pinnedWaiting
  }

  /** Rows that have not been sent at all and wait. */
  get fresh(): number {
    return this.#fresh.size + this.#pinnedWaiting
  }

  /** Estimated tokens of the rows that wait for their first call. */
  get waitingTokens(): number {
    return this.#fresh.tokens
  }

  /** Estimated tokens of so many of the rows that wait. */
  tokensOf(rows: number): number {
    const fresh = this.#fresh.size
    return fresh === 0 ? rows : (rows * this.#fresh.tokens) / fresh
  }

  /** True: as many rows wait as may; who only asks for a slot is asked to come back. */
  get isFull(): boolean {
    return this.waiting >= this.#queueRows
  }

  /** Calls in flight over its servers. */
  get inFlight(): number {
    let n = 0
    for (const server of this.servers) n += server.inFlight
    return n
  }

  add(server: PoolServer): void {
    this.servers.push(server)
    this.asksOnce = this.servers.some(
      ({ kind, engine }) => kind === 'generative' || engine.name === 'http',
    )
  }

  remove(server: PoolServer): void {
    const index = this.servers.indexOf(server)
    if (index >= 0) this.servers.splice(index, 1)
    this.#policy.forget(server.id)
    this.orphan(server)
    this.#unpin(server)
    this.unhold(server)
  }

  /** Rows that waited for a server's canary are to be tried again. */
  unhold(server: PoolServer): void {
    for (const row of server.canary.release()) this.readmit(row)
  }

  /** A server takes nothing for a while: its groups are anybody's. */
  orphan(server: PoolServer): void {
    this.#groups.orphan(server)
    if (server.canary.isWanted) this.pumpSoon()
  }

  /** A row was begun at a cost: of what waits, the same share is in the servers' prefix caches. */
  began(row: Row, cost: number): void {
    this.#costShare += COST_STEP * (cost / row.tokens - this.#costShare)
  }

  /** How long what waits will keep its servers busy, in ms; infinite where nobody knows. */
  drainMs(nowMs: number): number {
    let perSecond = 0
    for (const server of this.servers) {
      if (server.isHealthy(nowMs)) perSecond += server.rating.tokensPerSecond(nowMs) ?? 0
    }
    return (1_000 * this.#fresh.tokens * this.#costShare) / perSecond
  }

  /** In how many ms it is worth coming back: when what waits now is done, 1 to 30 s. */
  comeBackInMs(nowMs: number): number {
    const drainMs = this.drainMs(nowMs)
    if (!Number.isFinite(drainMs)) return 2_000
    return Math.min(30_000, Math.max(1_000, Math.ceil(drainMs / 1_000) * 1_000))
  }

  /** What a row of so many tokens takes at least, by the median of the fastest server, in ms; 0 where nothing was seen. */
  fastestMs(tokens: number, nowMs: number): number {
    let fastest = Number.POSITIVE_INFINITY
    for (const server of this.servers) {
      if (server.rating.samples < SEEN_FOR_TIMES) return 0
      if (!server.isHealthy(nowMs)) continue
      fastest = Math.min(fastest, server.rating.expectedMs(tokens) ?? 0)
    }
    return Number.isFinite(fastest) ? fastest : 0
  }

  /** Lets a new row go at once if a server has room and none waits before it, else queues it. */
  admit(row: Row, nowMs: number): void {
    if (row.tried !== null) {
      this.readmit(row)
      return
    }
    if (this.#policy.name === 'deterministic') {
      this.#pin(row, nowMs)
      return
    }
    if (this.waiting > 0 || this.#immediate !== null) {
      this.#queue(row)
      this.pumpSoon()
      return
    }
    if (
      this.#burst >= DISPATCH_BATCH ||
      (row.group !== undefined && row.priorityClass === 'step')
    ) {
      // A step's rows come together: seen together, the longest goes first and groups stay whole.
      this.#queue(row)
      if (this.#burst >= DISPATCH_BATCH) this.#pumpNextTurn()
      else this.pumpSoon()
      return
    }
    if (this.#burst++ === 0) queueMicrotask(this.#endBurst)
    if (this.#gather(nowMs)) {
      this.#listener.start(row, this.#policy.pick(this.#candidates, row), null, nowMs)
    } else {
      this.#queue(row)
      this.#askServers(nowMs)
      this.#listener.onShort(this)
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

  /** Queues a row for a second call while its first is out. */
  wantHedge(row: Row, kind: HedgeKind): void {
    if (row.queue !== null || row.hedgeWanted !== null) return
    row.hedgeWanted = kind
    this.#hedges.push(row)
    this.pumpSoon()
  }

  /** Takes a row out of whatever queue it waits in. */
  withdraw(row: Row): void {
    row.queue?.remove(row)
    if (row.hedgeWanted !== null && row.hedgeWanted !== 'stall') {
      this.hedgeBudget.forgone()
    }
    row.hedgeWanted = null
    if (row.pinned !== null) this.#pinnedWaiting--
    row.pinned = null
    if (!row.queuedFresh) return
    row.queuedFresh = false
    this.#fresh.remove(row)
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
    this.#askServers(nowMs)
    while (this.waiting > 0 && this.#gather(nowMs)) {
      if (left-- === 0) {
        this.#pumpNextTurn()
        return
      }
      if (
        !this.#bindHedge(nowMs) &&
        !this.#bindRetry(nowMs) &&
        !this.#bindFresh(nowMs) &&
        !this.#bindPinned(nowMs)
      ) {
        break
      }
    }
    if (this.isShort) this.#listener.onShort(this)
  }

  /** Rows wait for a slot, or for what a canary will tell. */
  get isShort(): boolean {
    return this.waiting > 0 || this.servers.some(({ canary }) => canary.held.size > 0)
  }

  #askServers(nowMs: number): void {
    for (const server of this.servers) {
      if (server.canary.isWanted) this.#listener.ask(this, server, nowMs)
    }
  }

  #make(name: PolicyName): BalancingPolicy {
    const { seed } = this.#options
    return policyNamed(name, seed === undefined ? {} : { seed })
  }

  #pumpNextTurn(): void {
    this.#immediate ??= setImmediate(() => {
      this.#immediate = null
      this.pump(performance.now())
    })
  }

  #queue(row: Row): void {
    row.queuedFresh = true
    this.#fresh.push(row)
  }

  #gather(nowMs: number): boolean {
    const candidates = this.#candidates
    candidates.length = 0
    const panic = this.#isPanic(nowMs)
    for (const server of this.servers) {
      if (!server.hasRoom(nowMs, panic)) continue
      server.refresh(nowMs)
      candidates.push(server)
    }
    return candidates.length > 0
  }

  /** Fewer than half of its ready servers take work: those that are out for being slow are better than none. */
  #isPanic(nowMs: number): boolean {
    let soft = false
    for (const server of this.servers) if (server.health.isSoftEjected) soft = true
    if (!soft) return false
    let ready = 0
    let healthy = 0
    for (const server of this.servers) {
      if (server.state !== 'ready') continue
      ready++
      if (server.isHealthy(nowMs)) healthy++
    }
    return healthy * 2 < ready
  }

  #bindHedge(nowMs: number): boolean {
    let row = this.#hedges.first
    for (let seen = 0; row !== null && seen < RETRY_SCAN; seen++, row = row.queueNext) {
      const eligible = this.#eligible
      eligible.length = 0
      for (const server of this.#candidates) {
        if (!row.hasTried(server) && server.health.state(nowMs) === 'ok') eligible.push(server)
      }
      if (eligible.length === 0) continue
      const kind = row.hedgeWanted as HedgeKind
      this.#hedges.remove(row)
      row.hedgeWanted = null
      this.#listener.start(row, this.#policy.pick(eligible, row), kind, nowMs)
      return true
    }
    return false
  }

  #bindRetry(nowMs: number): boolean {
    if (this.#retries.size === 0 || !this.retryBudget.allows(this.inFlight)) return false
    let row = this.#retries.first
    for (let seen = 0; row !== null && seen < RETRY_SCAN; seen++, row = row.queueNext) {
      if (!serversForRetry(row, this.servers, this.#candidates, this.#eligible, nowMs)) continue
      this.#retries.remove(row)
      this.#listener.start(row, this.#policy.pick(this.#eligible, row), null, nowMs)
      return true
    }
    return false
  }

  #bindFresh(nowMs: number): boolean {
    const row = this.#groups.next(this.#candidates, this.#policy)
    return row === null ? false : this.#send(row, this.#groups.server as PoolServer, nowMs)
  }

  #send(row: Row, server: PoolServer, nowMs: number): boolean {
    row.queuedFresh = false
    this.#fresh.take(row)
    this.#listener.start(row, server, null, nowMs)
    return true
  }

  /** The `deterministic` policy looks at no load: the row waits for the one server it is for. */
  #pin(row: Row, nowMs: number): void {
    const eligible = this.#eligible
    eligible.length = 0
    for (const server of this.servers) if (server.isHealthy(nowMs)) eligible.push(server)
    if (eligible.length === 0) {
      this.#queue(row)
      this.#listener.onShort(this)
      return
    }
    const server = this.#policy.pick(eligible, row)
    row.pinned = server
    server.pinned.push(row)
    this.#pinnedWaiting++
    this.pumpSoon()
  }

  #bindPinned(nowMs: number): boolean {
    if (this.#pinnedWaiting === 0) return false
    for (const server of this.#candidates) {
      const row = server.pinned.first
      if (row === null) continue
      this.withdraw(row)
      this.#listener.start(row, server, null, nowMs)
      return true
    }
    // Those whose server is out or gone are for another one meanwhile.
    for (const server of this.servers) {
      if (server.pinned.size > 0 && !server.isHealthy(nowMs) && this.anyHealthy(nowMs)) {
        this.#unpin(server)
        return true
      }
    }
    return false
  }

  #unpin(server: PoolServer): void {
    for (let row = server.pinned.first; row !== null; row = server.pinned.first) {
      this.withdraw(row)
      this.admit(row, performance.now())
    }
  }
}
