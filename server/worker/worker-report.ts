import type { monitorEventLoopDelay } from 'node:perf_hooks'
import type { Logger } from '../log.ts'
import type { RewardRouter, RouterServerStats } from '../router/router-types.ts'
import type { Database } from '../store/database.ts'
import type { JobQueue } from '../store/job-queue.ts'
import type { WorkerStats } from '../wire/worker-stats.ts'
import type { LeaseHolder } from './lease-holder.ts'
import type { RewardLoopWorker } from './reward-loop-worker.ts'

const REPORT_MS = 1_000
/** Heartbeats of held jobs: three within pg-boss's least of 10 s. */
const TOUCH_EVERY = 3
/** Readings kept in the row: one a second, a minute of them. */
const HISTORY = 60

/** What a report is made from. */
export interface ReportSources {
  id: number
  db: Database
  queue: JobQueue
  worker: RewardLoopWorker
  router: RewardRouter
  leases: LeaseHolder
  loopDelay: ReturnType<typeof monitorEventLoopDelay>
  log: Logger
}

/** Says once a second that this worker lives and what it does, and keeps its jobs' heartbeats. */
export class WorkerReport {
  readonly #o: ReportSources
  #timer: NodeJS.Timeout | undefined
  #ticks = 0
  #busy = false
  #lastAt = performance.now()
  #lastTotal = 0
  #history: number[] = []
  readonly #lastServer = new Map<number, RouterServerStats>()
  #state: 'alive' | 'stopping' | 'dead' = 'alive'

  constructor(options: ReportSources) {
    this.#o = options
  }

  start(): void {
    this.#timer = setInterval(() => void this.#tick(), REPORT_MS)
    void this.#tick()
  }

  async stopping(): Promise<void> {
    this.#state = 'stopping'
    await this.#o.db
      .adhoc("update worker set state = 'stopping' where id = $1", [this.#o.id])
      .catch(() => {})
  }

  async ended(): Promise<void> {
    clearInterval(this.#timer)
    this.#state = 'dead'
    await this.#o.db
      .adhoc(
        "update worker set state = 'dead', ended_at = now(), last_seen_at = now() where id = $1",
        [this.#o.id],
      )
      .catch(() => {})
  }

  async #tick(): Promise<void> {
    if (this.#busy || this.#state === 'dead') return
    this.#busy = true
    try {
      if (this.#ticks++ % TOUCH_EVERY === 0) {
        for (const [pool, jobs] of this.#o.worker.jobsByPool())
          await this.#o.queue.touch(pool, jobs)
      }
      const stats = this.#stats()
      await this.#o.db.rows(
        'worker-report',
        'update worker set last_seen_at = now(), state = $3, stats = $2 where id = $1',
        [this.#o.id, JSON.stringify(stats), this.#state],
      )
      await this.#writeServerMinutes()
      await this.#o.db.rows('worker-notify', "select pg_notify('rewardops', 'w')")
    } catch (error) {
      this.#o.log.debug({ err: (error as Error).message }, 'report not written')
    } finally {
      this.#busy = false
    }
  }

  #stats(): WorkerStats {
    const { worker, router, loopDelay } = this.#o
    const now = performance.now()
    const seconds = (now - this.#lastAt) / 1_000
    const { scored, failed } = worker.counters
    const rate = (scored + failed - this.#lastTotal) / Math.max(seconds, 0.001)
    this.#lastAt = now
    this.#lastTotal = scored + failed
    this.#history.push(Math.round(rate * 10) / 10)
    if (this.#history.length > HISTORY) this.#history.shift()
    const servers: WorkerStats['servers'] = {}
    for (const s of router.snapshot()) {
      const before = this.#lastServer.get(s.serverId)?.requests ?? 0
      servers[s.serverId] = {
        inFlight: s.inFlight,
        slots: s.slots,
        requestsPerSecond: (s.requests - before) / Math.max(seconds, 0.001),
      }
    }
    const stats: WorkerStats = {
      samplesPerSecond: rate,
      inFlight: worker.inFlight,
      held: worker.intake.held,
      room: worker.intake.room,
      // The histogram measures intervals of 10 ms; what exceeds that is delay.
      eventLoopP99Ms: Math.max(0, loopDelay.percentile(99) / 1e6 - 10),
      eventLoopMaxMs: Math.max(0, loopDelay.max / 1e6 - 10),
      rssBytes: process.memoryUsage.rss(),
      scoredTotal: scored,
      failedTotal: failed,
      history: [...this.#history],
      servers,
    }
    loopDelay.reset()
    return stats
  }

  /** What was called since the last reading, added to the server's minute and totals. */
  async #writeServerMinutes(): Promise<void> {
    for (const now of this.#o.router.snapshot()) {
      const before = this.#lastServer.get(now.serverId)
      const delta = {
        requests: now.requests - (before?.requests ?? 0),
        errors: now.errors - (before?.errors ?? 0),
        retries: now.retries - (before?.retries ?? 0),
      }
      if (
        delta.requests === 0 &&
        delta.errors === 0 &&
        now.latency.every((n, i) => n === (before?.latency[i] ?? 0))
      ) {
        this.#lastServer.set(now.serverId, now)
        continue
      }
      const latency = now.latency.map((n, i) => n - (before?.latency[i] ?? 0))
      await this.#o.db.rows(
        'server-minute',
        `with total as (
           update server set requests = requests + $2, errors = errors + $3, retries = retries + $4 where id = $1)
         insert into server_minute as m (server_id, minute, requests, errors, retries, latency_ms)
         values ($1, date_trunc('minute', now()), $2, $3, $4, $5)
         on conflict (server_id, minute) do update set
           requests = m.requests + excluded.requests, errors = m.errors + excluded.errors,
           retries = m.retries + excluded.retries,
           latency_ms = (select array_agg(coalesce(a, 0) + coalesce(b, 0) order by i)
                         from unnest(m.latency_ms, excluded.latency_ms) with ordinality as t(a, b, i))`,
        [now.serverId, delta.requests, delta.errors, delta.retries, latency],
      )
      this.#lastServer.set(now.serverId, now)
    }
  }
}
