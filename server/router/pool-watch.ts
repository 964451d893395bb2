import type { Flight } from './flight.ts'
import type { ModelPool } from './model-pool.ts'
import type { PoolServer } from './pool-server.ts'

/** Interval between checks of the calls in flight. A check of 5,000 calls takes about 0.2 ms. */
export const WATCH_MS = 100
/**
 * A server is silent if a call in flight has taken {@link SILENT_OF_EXPECTED} times its expected time, and the server
 * has answered nothing for that expected time and for {@link SILENT_MS}.
 */
const SILENT_MS = 1_000
const SILENT_OF_EXPECTED = 2
/**
 * At most this share of a pool may be suspect, because silence is significant only while other servers answer. One
 * server may always be suspect.
 */
const SUSPECT_SHARE = 0.3
/**
 * A call that cannot be hedged (to a judge or a custom scorer) is abandoned and retried on an untried server when it
 * exceeds this multiple of the server's 99th percentile and this minimum. Calls that can be hedged are never abandoned:
 * one sample in 200 may need ten times the usual time, and would need as long on another server.
 */
const GIVE_UP_OF_P99 = 10
const GIVE_UP_MS = 30_000
/** Number of completed calls before a server's times count for expected times, abandoned calls and tail hedges. */
const SEEN_FOR_TIMES = 6
const SEEN_TO_GIVE_UP = 20
const SEEN_FOR_TAIL = 50
/**
 * The last samples of a step are hedged when the expected remaining time of their call exceeds this multiple of the
 * expected time of a new call on another server. A sample is one of the last if no samples wait, or if a new call would
 * take longer than all waiting samples need.
 */
const LEFT_OF_NEW = 1.5
/** A call is overdue at this multiple of its expected time. */
const OVERDUE_OF_EXPECTED = 1.5
/** A call that is not interactive is hedged only after this time. An earlier hedge gains too little. */
const DRAIN_MS = 250
/** An interactive call is hedged when it exceeds this quantile of its server's times and this minimum. */
const TAIL_QUANTILE = 0.95
const TAIL_MS = 50
/** No tail hedges are sent while a larger share of the pool's slots is in use. */
const TAIL_SATURATION = 0.8
/** A server that is this many times slower than its peers' median, for samples of equal size, is ejected. */
const SLOW_TIMES = 6
/**
 * Minimum difference from the peers' median for which a slow server is ejected, in ms for a sample of mean size. A
 * difference of a few ms is noise, even if it is a multiple of the median.
 */
const SLOW_BY_MS = 200
const OUTLIER_EVERY_MS = 1_000

export type GiveUp = (flight: Flight, nowMs: number, detail: string) => void

/**
 * Watches a pool's calls in flight. Finds silent servers, slow calls, the last samples of a step, and servers that are
 * slower than their peers. Servers are compared only within the pool, because a slowdown of all servers is not the fault of
 * any one of them.
 */
export class PoolWatch {
  readonly #pool: ModelPool
  readonly #giveUp: GiveUp
  #outliersAtMs = 0

  constructor(pool: ModelPool, giveUp: GiveUp) {
    this.#pool = pool
    this.#giveUp = giveUp
  }

  /** Runs the checks that are due. Calls are hedged only if `hedges` is true. */
  look(nowMs: number, hedges: boolean): void {
    const { servers } = this.#pool
    const mayHedge = hedges && !this.#pool.isSentOnce && servers.length > 1
    for (const server of servers) {
      if (server.inFlight === 0) {
        // All calls to the server were abandoned or superseded before it answered any.
        if (server.health.state(nowMs) === 'suspect') {
          server.health.eject(nowMs, 'did not respond to any request', false, {})
        }
        continue
      }
      this.#lookForSilence(server, nowMs, mayHedge)
      this.#checkFlights(server, nowMs, mayHedge)
    }
    if (nowMs - this.#outliersAtMs >= OUTLIER_EVERY_MS) {
      this.#outliersAtMs = nowMs
      this.#lookForOutliers(nowMs)
    }
  }

  /**
   * Expected time of a sample of this size on a server, in ms. An unmeasured server counts as the median of its peers.
   * Returns null if no server is measured.
   */
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
    // The server is not at fault if all other servers are about as silent.
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

  /**
   * Returns the expected time, in ms, of the oldest call that has taken at least twice its expected time, provided that
   * the server has been silent for at least the expected time. Returns null if there is no such call.
   */
  #overdue(server: PoolServer, silentMs: number, nowMs: number): number | null {
    for (let flight = server.oldest; flight !== null; flight = flight.newer) {
      const expected = this.expectedMs(server, flight.tokens)
      if (expected === null) return null
      const ageMs = nowMs - flight.startedAtMs
      if (ageMs >= SILENT_OF_EXPECTED * expected && silentMs >= expected) return expected
    }
    return null
  }

  /**
   * Hedges all samples of a silent server, instead of waiting for its recovery. There is at most one hedge per call in
   * flight.
   */
  #hedgeAll(server: PoolServer): void {
    for (let flight = server.oldest; flight !== null; flight = flight.newer) {
      if (!flight.isHedged && flight.sample.isHedgeable)
        this.#pool.wantHedge(flight.sample, 'stall')
    }
  }

  #checkFlights(server: PoolServer, nowMs: number, mayHedge: boolean): void {
    const pool = this.#pool
    const { rating } = server
    const mayGiveUp = pool.isSentOnce && rating.samples >= SEEN_TO_GIVE_UP
    // While no samples wait and a server has a free slot, a hedge delays no other sample.
    const idle = mayHedge && pool.waiting === 0 && this.#anyIdle(nowMs)
    const drainMs = pool.waiting === 0 ? 0 : pool.drainMs(nowMs)
    let next: Flight | null = null
    for (let flight = server.oldest; flight !== null; flight = next) {
      next = flight.newer
      const ageMs = nowMs - flight.startedAtMs
      if (ageMs < TAIL_MS) break
      const { sample } = flight
      if (mayGiveUp && ageMs > GIVE_UP_MS && flight.call !== null) {
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

  /** Whether an interactive call exceeds the 95th percentile of its server while the pool has spare slots. */
  #isTail(server: PoolServer, flight: Flight, ageMs: number, nowMs: number): boolean {
    if (server.rating.samples < SEEN_FOR_TAIL || this.#saturation(nowMs) > TAIL_SATURATION) {
      return false
    }
    const p95 = server.rating.quantileMs(TAIL_QUANTILE, flight.tokens)
    return p95 !== null && ageMs > p95
  }

  /** Whether a hedge would probably be answered well before the call, but not before the waiting samples are done. */
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
    // The remaining time of an overdue call is unknown, so the call is hedged only if the hedge delays no other sample.
    return drainMs === 0 && ageMs > OVERDUE_OF_EXPECTED * own
  }

  /** Expected time on the fastest other usable server, in ms. Returns null if none is measured. */
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

  /** Ejects servers that are much slower than their peers for samples of equal size, up to half of the pool. */
  #lookForOutliers(nowMs: number): void {
    const { servers } = this.#pool
    const seen = servers.filter((server) => server.rating.samples >= SEEN_FOR_TIMES)
    if (seen.length < 2) return
    // All servers are compared at the same size. The fixed cost per call is only estimated, so times for different
    // sizes could not be compared exactly.
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

/** The upper median; null for an empty list. */
function median(numbers: number[]): number | null {
  if (numbers.length === 0) return null
  numbers.sort((a, b) => a - b)
  return numbers[numbers.length >> 1] as number
}
