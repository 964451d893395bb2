import type { WorkerServerStats } from '../contract/worker-stats.ts'
import type { Logger } from '../log.ts'
import type { RewardRouter, RouterEvent, RouterServerStats } from '../router/router-types.ts'
import type { Database } from '../store/database.ts'
import {
  addHealthEvents,
  addServerCalls,
  type HealthEvent,
  type ServerCalls,
} from '../store/sql/server-reports.ts'

const REPORT_MS = 1_000

type ServerLoad = Pick<ServerCalls, 'inFlightSeconds' | 'capacitySeconds'>
const NO_LOAD: ServerLoad = { inFlightSeconds: 0, capacitySeconds: 0 }

/** Maximum number of health events stored per server and minute; further ones are summarized in one event. */
const MAX_EVENTS_PER_MINUTE = 50
const MINUTE_MS = 60_000
/** Maximum number of events kept while the database cannot store them; further ones are only counted. */
const MAX_PENDING_EVENTS = 2_000

interface EventMinute {
  beganMs: number
  stored: number
  omitted: number
  first: RouterEvent | null
  last: RouterEvent | null
}

/**
 * Writes the router's activity once a second: it adds calls to the servers' statistics and stores health changes as
 * events. The router never waits for these writes.
 */
export class RouterReport {
  readonly #db: Database
  readonly #router: RewardRouter
  readonly #process: string
  readonly #log: Logger
  readonly #timer: NodeJS.Timeout
  readonly #stopListening: () => void
  #written = new Map<number, RouterServerStats>()
  readonly #loads = new Map<number, ServerLoad>()
  #loadedAtMs = performance.now()
  #seen = new Map<number, RouterServerStats>()
  #seenAtMs = performance.now()
  #rates = new Map<number, number>()
  #events: RouterEvent[] = []
  readonly #minutes = new Map<number, EventMinute>()
  #writing: Promise<void> | null = null

  /** `process`: this process's name in stored events, `w3` or `server-4`. */
  constructor(parts: { db: Database; router: RewardRouter; process: string; log: Logger }) {
    this.#db = parts.db
    this.#router = parts.router
    this.#process = parts.process
    this.#log = parts.log
    this.#stopListening = parts.router.onEvent((event) => this.#take(event))
    this.#timer = setInterval(() => void this.write(), REPORT_MS)
    this.#timer.unref()
  }

  servers(): Record<string, WorkerServerStats> {
    const out: Record<string, WorkerServerStats> = {}
    for (const s of this.#router.snapshot()) {
      out[s.serverId] = {
        inFlight: s.inFlight,
        slots: s.slots,
        requestsPerSecond: this.#rates.get(s.serverId) ?? 0,
        limit: s.limit,
        health: s.health,
        consecutiveFaults: s.consecutiveFaults,
        tokensPerSecond: s.tokensPerSecond,
        hedges: s.hedges,
        ejections: s.ejections,
        waiting: s.waiting,
      }
    }
    return out
  }

  /** Writes all activity since the last successful write. Never rejects. */
  write(): Promise<void> {
    this.#writing ??= this.#write()
      .catch((error: Error) => this.#log.debug({ err: error.message }, 'router report not written'))
      .finally(() => {
        this.#writing = null
      })
    return this.#writing
  }

  async close(): Promise<void> {
    clearInterval(this.#timer)
    await this.#writing
    for (const minute of this.#minutes.values()) minute.beganMs = Number.NEGATIVE_INFINITY
    await this.write()
    this.#stopListening()
  }

  async #write(): Promise<void> {
    const snapshot = this.#router.snapshot()
    this.#measureRates(snapshot)
    const nowMs = performance.now()
    // If any server of a model is called, the capacity of all its servers counts, including the idle ones.
    const called = new Set(
      snapshot.flatMap(({ serverId, model, inFlight, requests }) =>
        inFlight > 0 || requests !== (this.#written.get(serverId)?.requests ?? 0) ? [model] : [],
      ),
    )
    const seconds = (nowMs - this.#loadedAtMs) / 1_000
    for (const now of snapshot) {
      if (!called.has(now.model)) continue
      const load = this.#loads.get(now.serverId) ?? { ...NO_LOAD }
      const isOpen = now.state === 'ready' && now.health !== 'ejected'
      load.inFlightSeconds += now.inFlight * seconds
      load.capacitySeconds += (isOpen ? now.capacity : 0) * seconds
      this.#loads.set(now.serverId, load)
    }
    this.#loadedAtMs = nowMs
    const calls = snapshot.flatMap((now) => {
      const { serverId } = now
      const load = this.#loads.get(serverId) ?? NO_LOAD
      return callsBetween(this.#written.get(serverId), now, load) ?? []
    })
    await addServerCalls(this.#db, calls)
    this.#written = new Map(snapshot.map((now) => [now.serverId, now]))
    this.#loads.clear()
    await this.#writeEvents()
  }

  #measureRates(snapshot: RouterServerStats[]): void {
    const nowMs = performance.now()
    const seconds = Math.max(0.001, (nowMs - this.#seenAtMs) / 1_000)
    this.#rates = new Map(
      snapshot.map((s) => {
        const before = this.#seen.get(s.serverId)?.requests ?? 0
        return [s.serverId, Math.max(0, s.requests - before) / seconds]
      }),
    )
    this.#seen = new Map(snapshot.map((s) => [s.serverId, s]))
    this.#seenAtMs = nowMs
  }

  #take(event: RouterEvent): void {
    let minute = this.#minutes.get(event.serverId)
    if (minute === undefined) {
      minute = { beganMs: event.atMs, stored: 0, omitted: 0, first: null, last: null }
      this.#minutes.set(event.serverId, minute)
    }
    if (minute.stored < MAX_EVENTS_PER_MINUTE && this.#events.length < MAX_PENDING_EVENTS) {
      minute.stored++
      this.#events.push(event)
    } else {
      minute.omitted++
      minute.first ??= event
      minute.last = event
    }
  }

  async #writeEvents(): Promise<void> {
    const nowMs = Date.now()
    const taken = this.#events.length
    const rows = this.#events.map((event) => this.#row(event, nowMs))
    const over = [...this.#minutes].filter(([, m]) => nowMs - m.beganMs >= MINUTE_MS)
    // Events that arrive during the write begin another minute.
    for (const [id] of over) this.#minutes.delete(id)
    for (const [, { omitted, first, last }] of over) {
      if (first === null || last === null) continue
      const row = this.#row(last, nowMs)
      row.from = first.from
      row.cause = `${omitted} more changes within a minute; last: ${last.cause}`
      row.evidence = { ...row.evidence, omitted }
      rows.push(row)
    }
    try {
      await addHealthEvents(this.#db, rows)
    } catch (error) {
      for (const [id, minute] of over) this.#minutes.set(id, joined(minute, this.#minutes.get(id)))
      throw error
    }
    this.#events = this.#events.slice(taken)
  }

  #row(event: RouterEvent, nowMs: number): HealthEvent {
    const { serverId, from, to, cause, evidence, atMs } = event
    return {
      serverId,
      from,
      to,
      cause,
      evidence: { ...evidence, process: this.#process },
      agoMs: Math.max(0, nowMs - atMs),
    }
  }
}

/** Adds the later events to a minute that could not be written. */
function joined(minute: EventMinute, since: EventMinute | undefined): EventMinute {
  if (since === undefined) return minute
  return {
    beganMs: minute.beganMs,
    stored: since.stored,
    omitted: minute.omitted + since.omitted,
    first: minute.first ?? since.first,
    last: since.last ?? minute.last,
  }
}

function callsBetween(
  before: RouterServerStats | undefined,
  now: RouterServerStats,
  load: ServerLoad,
): ServerCalls | null {
  const latency = now.latency.map((n, i) => n - (before?.latency[i] ?? 0))
  const since = (n: number, past: number | undefined) => n - (past ?? 0)
  const calls: ServerCalls = {
    serverId: now.serverId,
    requests: since(now.requests, before?.requests),
    errors: since(now.errors, before?.errors),
    retries: since(now.retries, before?.retries),
    hedges: since(now.hedges, before?.hedges),
    busy: since(now.failures.busy, before?.failures.busy),
    corrupt: since(now.failures.corrupt, before?.failures.corrupt),
    client: since(now.failures.client, before?.failures.client),
    ejections: since(now.ejections, before?.ejections),
    ...load,
    tokens: Math.round(since(now.tokens, before?.tokens)),
    latency,
  }
  const { serverId: _, latency: buckets, ...counts } = calls
  // Every count is tested, not only the requests: a server can be ejected after its last call has ended.
  const isIdle = [...Object.values(counts), ...buckets].every((n) => n === 0)
  return isIdle ? null : calls
}
