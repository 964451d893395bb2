import type { monitorEventLoopDelay } from 'node:perf_hooks'
import type { ProcessRow } from '../cluster/process-row.ts'
import type { SharedServers } from '../cluster/shared-servers.ts'
import type { WorkerStats } from '../contract/worker-stats.ts'
import type { Logger } from '../log.ts'
import type { JobQueue } from '../store/job-queue.ts'
import type { RewardLoopWorker } from './reward-loop-worker.ts'

const REPORT_MS = 1_000
/** Seconds between heartbeats of claimed jobs: three within pg-boss's minimum of 10 s. */
const TOUCH_EVERY = 3
/** Throughput readings kept in the table row, one per second. */
const HISTORY = 60

/** Dependencies of {@link WorkerReport}. */
export interface ReportSources {
  row: ProcessRow
  queue: JobQueue
  worker: RewardLoopWorker
  servers: SharedServers
  loopDelay: ReturnType<typeof monitorEventLoopDelay>
  log: Logger
}

/** Reports the worker's state once a second and sends its jobs' heartbeats. */
export class WorkerReport {
  readonly #o: ReportSources
  #timer: NodeJS.Timeout | undefined
  #ticks = 0
  #busy = false
  #lastAt = performance.now()
  #lastTotal = 0
  #history: number[] = []

  constructor(options: ReportSources) {
    this.#o = options
  }

  start(): void {
    this.#timer = setInterval(() => void this.#tick(), REPORT_MS)
    void this.#tick()
  }

  async stopping(): Promise<void> {
    await this.#o.row.stopping()
  }

  async ended(): Promise<void> {
    clearInterval(this.#timer)
    await this.#o.row.ended()
  }

  async #tick(): Promise<void> {
    if (this.#busy || this.#o.row.state === 'dead') return
    this.#busy = true
    try {
      if (this.#ticks++ % TOUCH_EVERY === 0) {
        for (const [pool, jobs] of this.#o.worker.jobsByPool())
          await this.#o.queue.touch(pool, jobs)
      }
      await this.#o.row.report(this.#stats())
    } catch (error) {
      this.#o.log.debug({ err: (error as Error).message }, 'report not written')
    } finally {
      this.#busy = false
    }
  }

  #stats(): WorkerStats {
    const { worker, servers, loopDelay } = this.#o
    const now = performance.now()
    const seconds = (now - this.#lastAt) / 1_000
    const { scored, failed } = worker.counters
    const rate = (scored + failed - this.#lastTotal) / Math.max(seconds, 0.001)
    this.#lastAt = now
    this.#lastTotal = scored + failed
    this.#history.push(Math.round(rate * 10) / 10)
    if (this.#history.length > HISTORY) this.#history.shift()
    const stats: WorkerStats = {
      samplesPerSecond: rate,
      inFlight: worker.inFlight,
      inUse: worker.intake.inUse,
      capacity: worker.intake.capacity,
      // The histogram measures the intervals of a 10 ms timer; the excess is delay.
      eventLoopP99Ms: Math.max(0, loopDelay.percentile(99) / 1e6 - 10),
      eventLoopMaxMs: Math.max(0, loopDelay.max / 1e6 - 10),
      rssBytes: process.memoryUsage.rss(),
      scoredTotal: scored,
      failedTotal: failed,
      history: [...this.#history],
      servers: servers.stats(),
    }
    loopDelay.reset()
    return stats
  }
}
