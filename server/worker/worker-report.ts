import type { ProcessRow } from '../cluster/process-row.ts'
import type { SharedServers } from '../cluster/shared-servers.ts'
import type { WorkerStats } from '../contract/worker-stats.ts'
import type { EventLoopDelay } from '../event-loop-delay.ts'
import type { Logger } from '../log.ts'
import type { Database } from '../store/database.ts'
import type { JobQueue } from '../store/job-queue.ts'
import {
  addLatencies,
  addWorkerLoad,
  LATENCY_KINDS,
  type LatencyKind,
  type WorkerLoad,
} from '../store/sql/server-reports.ts'
import type { RewardLoopWorker } from './reward-loop-worker.ts'

const REPORT_MS = 1_000
/** Seconds between heartbeats of claimed jobs: three fit into 10 s, pg-boss's minimum heartbeat timeout. */
const TOUCH_EVERY = 3
/** Number of throughput readings kept in the table row, one per second. */
const HISTORY = 60

/** Durations are written with every fifth report only, because all workers compete for the locks of the same rows. */
const LATENCY_EVERY = 5
/** Interval at which the load of an idle worker is written, ms: the period that the shortest history rows cover. */
const IDLE_LOAD_MS = 10_000

const NO_LOAD: WorkerLoad = { inFlightSeconds: 0, capacitySeconds: 0, loopP99Ms: 0 }

export interface ReportSources {
  db: Database
  row: ProcessRow
  queue: JobQueue
  worker: RewardLoopWorker
  servers: SharedServers
  /** The reason why the worker takes no jobs of reward functions, or null if it takes them. */
  functionProblem: string | null
  loopDelay: Pick<EventLoopDelay, 'take'>
  log: Logger
}

export class WorkerReport {
  readonly #o: ReportSources
  #timer: NodeJS.Timeout | undefined
  #ticks = 0
  #ticking: Promise<void> | null = null
  #writing: Promise<void> | null = null
  #lastAt = performance.now()
  #lastTotal = 0
  #rates: number[] = []
  #load: WorkerLoad = { ...NO_LOAD }
  #loadedAtMs = performance.now()
  /** Start of the period whose load is not written yet, on the database's clock. */
  #loadFromMs: number
  #wasBusy = false
  #isEnding = false
  #endedTotal = 0

  constructor(options: ReportSources) {
    this.#o = options
    this.#loadFromMs = options.row.clock.nowMs()
  }

  start(): void {
    this.#timer = setInterval(() => this.#tick(), REPORT_MS)
    this.#tick()
  }

  async stopping(): Promise<void> {
    await this.#o.row.stopping()
  }

  async ended(): Promise<void> {
    clearInterval(this.#timer)
    await this.#ticking
    await this.#writing
    this.#isEnding = true
    await this.#write(true)
    await this.#o.row.ended()
  }

  #tick(): void {
    if (this.#o.row.state === 'dead') return
    this.#ticking ??= this.#report()
      .catch((error: Error) => this.#log(error, 'report not written'))
      .finally(() => {
        this.#ticking = null
      })
  }

  async #report(): Promise<void> {
    if (this.#ticks++ % TOUCH_EVERY === 0) {
      for (const [pool, jobs] of this.#o.worker.jobsByPool()) await this.#o.queue.touch(pool, jobs)
    }
    await this.#o.row.report(this.#stats())
    // Not awaited: the history must not delay heartbeats and reports, without which this worker counts as dead.
    void this.#write(this.#ticks % LATENCY_EVERY === 0)
  }

  /** Adds load and, if `withLatencies` is true, durations to the history of the fleet. Never rejects. */
  #write(withLatencies: boolean): Promise<void> {
    const failed = (error: Error) => this.#log(error, 'history not written')
    this.#writing ??= (withLatencies ? this.#writeLatencies() : Promise.resolve())
      .catch(failed)
      .then(() => this.#writeLoad())
      .catch(failed)
      .finally(() => {
        this.#writing = null
      })
    return this.#writing
  }

  #log(error: Error, message: string): void {
    this.#o.log.debug({ err: error.message }, message)
  }

  async #writeLoad(): Promise<void> {
    const { row, worker, db } = this.#o
    const now = performance.now()
    const seconds = (now - this.#loadedAtMs) / 1_000
    this.#loadedAtMs = now
    const endedTotal = worker.counters.scored + worker.counters.failed
    this.#load.inFlightSeconds += worker.inFlight * seconds
    this.#load.capacitySeconds += worker.intake.capacity * seconds
    const isBusy = worker.inFlight > 0
    const isIdle = !isBusy && !this.#wasBusy && endedTotal === this.#endedTotal
    const nowMs = row.clock.nowMs()
    const isSameRow =
      Math.floor(nowMs / IDLE_LOAD_MS) === Math.floor(this.#loadFromMs / IDLE_LOAD_MS)
    // An idle worker writes its capacity only once per row of the history, because its load does not change.
    if (isIdle && isSameRow && !this.#isEnding) return
    const load = this.#load
    this.#load = { ...NO_LOAD }
    try {
      await addWorkerLoad(db, row.id, new Date(this.#loadFromMs), load)
      this.#loadFromMs = nowMs
    } catch (error) {
      this.#load = added(load, this.#load)
      throw error
    }
    this.#endedTotal = endedTotal
    this.#wasBusy = isBusy
  }

  async #writeLatencies(): Promise<void> {
    const { latency } = this.#o.worker.counters
    if (LATENCY_KINDS.every((kind) => latency[kind].total === 0)) return
    const counts = mapKinds((kind) => latency[kind].toJSON())
    await addLatencies(this.#o.db, counts)
    for (const kind of LATENCY_KINDS) latency[kind].subtract(counts[kind])
  }

  #stats(): WorkerStats {
    const { worker, servers, loopDelay } = this.#o
    const now = performance.now()
    const seconds = (now - this.#lastAt) / 1_000
    const { scored, failed } = worker.counters
    const rate = (scored + failed - this.#lastTotal) / Math.max(seconds, 0.001)
    this.#lastAt = now
    this.#lastTotal = scored + failed
    this.#rates.push(Math.round(rate * 10) / 10)
    if (this.#rates.length > HISTORY) this.#rates.shift()
    const { p99Ms, maxMs } = loopDelay.take()
    const stats: WorkerStats = {
      samplesPerSecond: rate,
      inFlight: worker.inFlight,
      inUse: worker.intake.inUse,
      capacity: worker.intake.capacity,
      eventLoopP99Ms: p99Ms,
      eventLoopMaxMs: maxMs,
      rssBytes: process.memoryUsage.rss(),
      scoredTotal: scored,
      failedTotal: failed,
      history: [...this.#rates],
      servers: servers.stats(),
      functionProblem: this.#o.functionProblem,
    }
    this.#load.loopP99Ms = Math.max(this.#load.loopP99Ms, stats.eventLoopP99Ms)
    return stats
  }
}

function mapKinds<T>(of: (kind: LatencyKind) => T): Record<LatencyKind, T> {
  return Object.fromEntries(LATENCY_KINDS.map((kind) => [kind, of(kind)])) as Record<LatencyKind, T>
}

function added(one: WorkerLoad, other: WorkerLoad): WorkerLoad {
  return {
    inFlightSeconds: one.inFlightSeconds + other.inFlightSeconds,
    capacitySeconds: one.capacitySeconds + other.capacitySeconds,
    loopP99Ms: Math.max(one.loopP99Ms, other.loopP99Ms),
  }
}
