import type { Flight } from './flight.ts'
import type { ModelPool } from './model-pool.ts'
import type { PoolServer } from './pool-server.ts'

/** How often samples in flight are looked at; a look at 5,000 of them takes about 0.2 ms. */
export const WATCH_MS = 100
/** A server is silent that answered nothing for this long, and for twice what its calls should take. */
const SILENT_MS = 1_000
const SILENT_OF_EXPECTED = 2
/** Silence means something only while others answer: at most so much of a pool may be suspect, one server always. */
const SUSPECT_SHARE = 0.3
/**
 * A judge's call is given up, for a server that has not tried, when it takes so many times the slowest hundredth of its
 * like, and at least so long. A call that can be sent twice never is: one reward in 200 may well take ten times as long,
 * and given up it would take as long again elsewhere.
 */
const GIVE_UP_OF_P99 = 10
const GIVE_UP_MS = 30_000
/** Calls that must have ended before a server's times are believed: for a guess, and for giving a call up. */
const SEEN_FOR_TIMES = 6
const SEEN_TO_GIVE_UP = 20
const SEEN_FOR_TAIL = 50
/**
 * The last samples of a step are sent a second time when what is left of their call takes so many times a new one elsewhere.
 * Last are those of which nothing waits any more, and those that would outlast what waits.
 */
const LEFT_OF_NEW = 1.5
/** So many times what is usual, and a call is overdue. */
const OVERDUE_OF_EXPECTED = 1.5
/** …and no call is sent twice sooner: less is not worth it. */
const DRAIN_MS = 250
/** A single call is sent a second time when it takes longer than 95 of 100. */
const TAIL_QUANTILE = 0.95
const TAIL_MS = 50
/** Above it the pool has no room for calls that are only insurance. */
const TAIL_SATURATION = 0.8
/** A server so many times slower than the others' median, size for size, is out for a while. */
const SLOW_TIMES = 6
/** …and by so much for a sample of usual size: 7 ms against 1 is noise. */
const SLOW_BY_MS = 200
const OUTLIER_EVERY_MS = 1_000

/** Gives a call up, for {@link watchPool}. */
export type GiveUp = (flight: Flight, nowMs: number, detail: string) => void

/**
 * Looks at a pool's calls in flight: servers gone silent, calls that take too long, the last samples of a step, servers
 * slower than their peers. Measures are the pool's own: a slowdown of all is nobody's fault.
 */
export class PoolWatch {
  readonly #pool: ModelPool
  readonly #giveUp: GiveUp
  #outliersAtMs = 0

  constructor(pool: ModelPool, giveUp: GiveUp) {
    this.#pool = pool
    this.#giveUp = giveUp
  }

  /** One look. `hedges`: second calls are allowed. */
  look(nowMs: number, hedges: boolean): void {
    const { servers } = this.#pool
    const mayHedge = hedges && !this.#pool.asksOnce && servers.length > 1
    for (const server of servers) {
      if (server.inFlight === 0) {
        // All it had was given up or answered elsewhere: its silence was no slow call.
        if (server.health.state(nowMs) === 'suspect') {
          server.health.eject(nowMs, 'did not respond to any request', false, {})
        }
        continue
      }
      this.#lookForSilence(server, nowMs, mayHedge)
      this.#lookAtFlights(server, nowMs, mayHedge)
    }
    if (nowMs - this.#outliersAtMs >= OUTLIER_EVERY_MS) {
      this.#outliersAtMs = nowMs
      this.#lookForOutliers(nowMs)
    }
  }

  /** What a sample of so many tokens should take on a server, in ms; null where nothing like it was seen in the pool. */
  expectedMs(server: PoolServer, tokens: number): number | null {
    if (server.rating.samples >= SEEN_FOR_TIMES) return server.rating.expectedMs(tokens)
    const others: number[] = []
    for (const peer of this.#pool.servers) {
      if (peer.rating.samples < SEEN_FOR_TIMES) continue
      const ms = peer.rating.expectedMs(tokens)
      if (ms !== null) others.push(ms)
    }
    return median(others)
  }

  #lookForSilence(server: PoolServer, nowMs: number, mayHedge: boolean): void {
    const state = server.health.state(nowMs)
    if (state === 'suspect') {
      if (mayHedge) this.#hedgeAll(server)
      return
    }
    if (state === 'ejected' || this.#pool.servers.length < 2) return
    const { oldest } = server
    if (oldest === null) return
    const silentMs = nowMs - Math.max(server.progressAtMs, oldest.startedAtMs)
    if (silentMs < SILENT_MS) return
    const expected = this.#overdue(server, silentMs, nowMs)
    if (expected === null) return
    // Others that are as silent: not this server's fault.
    if (
      !this.#pool.servers.some(
        (peer) => peer !== server && nowMs - peer.progressAtMs < silentMs / 2,
      )
    ) {
      return
    }
    const suspects = this.#pool.servers.filter((s) => s.health.state(nowMs) === 'suspect').length
    if (suspects >= Math.max(1, Math.floor(SUSPECT_SHARE * this.#pool.servers.length))) return
    server.health.wentSilent(
      nowMs,
      `no response for ${Math.round(silentMs)} ms while others respond`,
      {
        silentMs: Math.round(silentMs),
        expectedMs: Math.round(expected),
        inFlight: server.inFlight,
      },
    )
    if (mayHedge) this.#hedgeAll(server)
  }

  /** What a call of its should have taken that has had twice that, and heard nothing in that time; null where none is. */
  #overdue(server: PoolServer, silentMs: number, nowMs: number): number | null {
    for (let flight = server.oldest; flight !== null; flight = flight.newer) {
      const expected = this.expectedMs(server, flight.tokens)
      if (expected === null) return null
      const ageMs = nowMs - flight.startedAtMs
      if (ageMs >= SILENT_OF_EXPECTED * expected && silentMs >= expected) return expected
    }
    return null
  }

  /** A silent server's samples do not wait to see what becomes of it; the hedges are as many as it had in flight, no more. */
  #hedgeAll(server: PoolServer): void {
    for (let flight = server.oldest; flight !== null; flight = flight.newer) {
      if (!flight.isHedged && flight.sample.isHedgeable)
        this.#pool.wantHedge(flight.sample, 'stall')
    }
  }

  #lookAtFlights(server: PoolServer, nowMs: number, mayHedge: boolean): void {
    const pool = this.#pool
    const { rating } = server
    const sure = rating.samples >= SEEN_TO_GIVE_UP
    // With nothing waiting and servers idle a second call costs nobody anything.
    const idle = mayHedge && pool.waiting === 0 && this.#anyIdle(nowMs)
    const drainMs = pool.waiting === 0 ? 0 : pool.drainMs(nowMs)
    let next: Flight | null = null
    for (let flight = server.oldest; flight !== null; flight = next) {
      next = flight.newer
      const ageMs = nowMs - flight.startedAtMs
      if (ageMs < TAIL_MS) break
      const { sample } = flight
      if (sure && pool.asksOnce && ageMs > GIVE_UP_MS && flight.call !== null) {
        const p99 = rating.quantileMs(0.99, flight.tokens)
        if (p99 !== null && ageMs > GIVE_UP_OF_P99 * p99 && pool.anyUntried(sample, nowMs)) {
          this.#giveUp(flight, nowMs, `no answer within ${Math.round(ageMs)} ms`)
          continue
        }
      }
      if (!mayHedge || flight.isHedged || !sample.isHedgeable || sample.hedgeWanted !== null)
        continue
      const tail = sample.priorityClass === 'interactive'
      if (tail ? !idle || !this.#isTail(server, flight, ageMs, nowMs) : ageMs < DRAIN_MS) continue
      if (!tail && !this.#isStraggler(server, flight, ageMs, idle ? 0 : drainMs, nowMs)) continue
      if (!pool.hedgeBudget.allows(nowMs)) return
      pool.hedgeBudget.promised(nowMs)
      pool.wantHedge(sample, tail ? 'tail' : 'drain')
    }
  }

  /** A single call slower than nineteen of twenty, while the pool has room to spare. */
  #isTail(server: PoolServer, flight: Flight, ageMs: number, nowMs: number): boolean {
    if (server.rating.samples < SEEN_FOR_TAIL || this.#saturation(nowMs) > TAIL_SATURATION) {
      return false
    }
    const p95 = server.rating.quantileMs(TAIL_QUANTILE, flight.tokens)
    return p95 !== null && ageMs > p95
  }

  /** What is left of the call takes longer than a new one elsewhere, which itself outlasts what waits. */
  #isStraggler(
    server: PoolServer,
    flight: Flight,
    ageMs: number,
    drainMs: number,
    nowMs: number,
  ): boolean {
    const own = this.expectedMs(server, flight.tokens)
    const elsewhere = this.#newCallMs(server, flight.sample.tokens, nowMs)
    if (own === null || elsewhere === null || drainMs > elsewhere) return false
    if (ageMs < own) return own - ageMs > LEFT_OF_NEW * elsewhere
    // Overdue: nobody knows what is left. Worth a call only where that costs nobody anything.
    return drainMs === 0 && ageMs > OVERDUE_OF_EXPECTED * own
  }

  /** What a sample takes on the fastest of the other servers that take work; null where none was seen. */
  #newCallMs(server: PoolServer, tokens: number, nowMs: number): number | null {
    let fastest: number | null = null
    for (const peer of this.#pool.servers) {
      if (peer === server || !peer.isUsable(nowMs)) continue
      const ms = this.expectedMs(peer, tokens)
      if (ms !== null && (fastest === null || ms < fastest)) fastest = ms
    }
    return fastest
  }

  #anyIdle(nowMs: number): boolean {
    return this.#pool.servers.some((server) => server.hasRoom(nowMs))
  }

  #saturation(nowMs: number): number {
    let slots = 0
    let inFlight = 0
    for (const server of this.#pool.servers) {
      if (!server.isHealthy(nowMs)) continue
      slots += server.slots
      inFlight += server.inFlight
    }
    return slots === 0 ? 1 : inFlight / slots
  }

  /** Slower than its peers, size for size, by more than makes sense to wait for; at most half of the pool is out for it. */
  #lookForOutliers(nowMs: number): void {
    const { servers } = this.#pool
    const seen = servers.filter((server) => server.rating.samples >= SEEN_FOR_TIMES)
    if (seen.length < 2) return
    // By one size for all: what a call costs whatever its size is each server's own guess.
    const tokens = seen.reduce((sum, { rating }) => sum + rating.meanTokens, 0) / seen.length
    let softOut = servers.filter((server) => server.health.isSoftEjected).length
    for (const server of seen) {
      if (server.health.state(nowMs) !== 'ok') continue
      const own = server.rating.expectedMs(tokens)
      const peers = median(
        seen
          .filter((peer) => peer !== server && peer.isHealthy(nowMs))
          .map((peer) => peer.rating.expectedMs(tokens))
          .filter((ms) => ms !== null),
      )
      if (own === null || peers === null || peers === 0) continue
      if (own < SLOW_TIMES * peers || own - peers < SLOW_BY_MS) continue
      if ((softOut + 1) * 2 > servers.length) return
      softOut++
      const times = Math.round((own / peers) * 10) / 10
      server.health.eject(nowMs, `${times} times the latency of its peers`, true, { times })
    }
  }
}

/** Null of nothing. */
function median(numbers: number[]): number | null {
  if (numbers.length === 0) return null
  numbers.sort((a, b) => a - b)
  return numbers[numbers.length >> 1] as number
}
