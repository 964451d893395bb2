import { type ChildProcess, spawn } from 'node:child_process'
import { hostname } from 'node:os'
import { fileURLToPath } from 'node:url'
import type { Logger } from '../log.ts'
import { type Database, throughOutage } from '../store/database.ts'
import type { JobQueue } from '../store/job-queue.ts'
import type {
  DirectEndMessage,
  DirectScoreMessage,
  ForgetScoreMessage,
} from '../wire/direct-score.ts'
import type { EndedMessage } from '../wire/ended-message.ts'
import type { WorkerChannel } from './direct-scores.ts'

/** A worker that dies again and again is started after this long at most. */
const MAX_BACKOFF_MS = 5_000
/** A worker that is not seen for this long is dead: five missed reports. */
export const DEAD_AFTER_MS = 5_000
/** A worker claims a job that it has held for 60 ms; this leaves a busy one time to do so. */
const CLAIMED_BY_MS = 1_500
/** Of the 8 s that SIGTERM may take. */
const STOP_MS = 6_500

/** How many workers, on which database. */
export interface SupervisorOptions {
  count: number
  databaseUrl: string
  /** The environment the workers inherit. */
  env: NodeJS.ProcessEnv
  /** `host:port` of the router address. */
  routerAddress: string
  /** Hears what the workers tell over their channel. */
  onMessage: (message: EndedMessage | DirectEndMessage) => void
  db: Database
  queue: JobQueue
  log: Logger
}

/**
 * The local workers: started with the server, started again when they die, their jobs given back at once.
 *
 *   start ─▶ running ──exit──▶ jobs given back ──back-off──▶ start
 */
export class WorkerSupervisor implements WorkerChannel {
  readonly #options: SupervisorOptions
  readonly #children = new Map<number, ChildProcess>()
  #stopping = false
  #timers = new Set<NodeJS.Timeout>()

  constructor(options: SupervisorOptions) {
    this.#options = options
  }

  start(): void {
    for (let slot = 0; slot < this.#options.count; slot++) this.#spawn(slot, 0)
  }

  /** Process ids of the local workers that run. */
  get pids(): number[] {
    return [...this.#children.values()].flatMap((child) =>
      child.pid === undefined ? [] : [child.pid],
    )
  }

  send(message: DirectScoreMessage | ForgetScoreMessage, turn: number): boolean {
    const children = [...this.#children.values()]
    const child = children[turn % Math.max(1, children.length)]
    if (child === undefined || !child.connected || this.#stopping) return false
    child.send(message, () => {})
    return true
  }

  #spawn(slot: number, failures: number): void {
    if (this.#stopping) return
    const startedAt = performance.now()
    const child = spawn(
      process.execPath,
      [
        // 300 MB of memory in all: the old generation is collected before it grows past what chunks need.
        '--max-old-space-size=192',
        '--max-semi-space-size=16',
        fileURLToPath(new URL('../worker/start.ts', import.meta.url)),
        '--local',
      ],
      {
        stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
        env: {
          ...this.#options.env,
          DATABASE_URL: this.#options.databaseUrl,
          REWARDOPS_WORKER_LOCAL: '1',
          REWARDOPS_WORKER_ROUTER: this.#options.routerAddress,
        },
      },
    )
    this.#children.set(slot, child)
    child.on('message', (message) =>
      this.#options.onMessage(message as EndedMessage | DirectEndMessage),
    )
    child.on('error', (error) =>
      this.#options.log.error({ err: error.message }, 'worker not started'),
    )
    child.on('exit', (code, signal) => {
      this.#children.delete(slot)
      if (this.#stopping) return
      const lived = performance.now() - startedAt
      const next = lived > 10_000 ? 0 : failures + 1
      this.#options.log.warn(
        { pid: child.pid, code, signal, livedMs: Math.round(lived) },
        'worker died',
      )
      if (child.pid !== undefined) void this.giveBack(child.pid)
      const timer = setTimeout(
        () => {
          this.#timers.delete(timer)
          this.#spawn(slot, next)
        },
        next === 0 ? 0 : Math.min(MAX_BACKOFF_MS, 100 * 2 ** next),
      )
      this.#timers.add(timer)
    })
  }

  /** Returns the jobs of a worker of this host that has ended. */
  async giveBack(pid: number): Promise<void> {
    const { db, queue, log } = this.#options
    await throughOutage(
      async () => {
        const rows = await db.adhoc<{ id: number }>(`${TO_CHECK} and host = $1 and pid = $2`, [
          hostname(),
          pid,
        ])
        await giveBackOf(db, queue, rows, true)
      },
      { forMs: 60_000 },
    ).catch((error: Error) =>
      log.warn({ err: error.message }, 'jobs of a dead worker were not returned to the queue'),
    )
  }

  /** SIGTERM to all; SIGKILL to those that do not end in time. */
  async stop(): Promise<void> {
    this.#stopping = true
    for (const timer of this.#timers) clearTimeout(timer)
    const children = [...this.#children.values()]
    await Promise.all(
      children.map(
        (child) =>
          new Promise<void>((resolve) => {
            if (child.exitCode !== null || child.signalCode !== null) return resolve()
            const timer = setTimeout(() => child.kill('SIGKILL'), STOP_MS)
            child.once('exit', () => {
              clearTimeout(timer)
              resolve()
            })
            child.kill('SIGTERM')
          }),
      ),
    )
  }
}

/**
 * Returns the jobs of processes to the queue and marks them dead; gives how many samples. `isGone`: the processes have
 * ended, so their shares of limits are free at once; those of a process that was only not heard of count on until they
 * have lapsed, for its calls may still be in flight.
 */
async function giveBackOf(
  db: Database,
  queue: JobQueue,
  processes: readonly { id: number }[],
  isGone: boolean,
): Promise<number> {
  if (processes.length === 0) return 0
  const processIds = processes.map(({ id }) => id)
  const dead = await db.adhoc<{ id: number }>(
    `update process set state = 'dead', ended_at = coalesce(ended_at, now())
     where id = any($1::int[]) and (state <> 'dead' or exists (select 1 from claim where worker_id = process.id))
     returning id`,
    [processIds],
  )
  if (isGone) await db.adhoc('delete from lease where worker_id = any($1::int[])', [processIds])
  if (dead.length === 0) return 0
  const ids = dead.map((row) => row.id)
  const claims = await db.adhoc<{
    job_id: string
    queue: string
    worker_id: number
    samples: number
  }>(
    'delete from claim where worker_id = any($1::int[]) returning job_id, queue, worker_id, samples',
    [ids],
  )
  for (const pool of new Set(claims.map((c) => c.queue))) {
    const jobs = claims.filter((c) => c.queue === pool).map((c) => c.job_id)
    await queue.giveBack(pool, jobs)
    await db.adhoc("select pg_notify('rewardops', $1)", [`q${pool}`])
  }
  for (const id of ids) {
    const samples = claims.filter((c) => c.worker_id === id).reduce((n, c) => n + c.samples, 0)
    if (samples > 0)
      await db.adhoc('update process set requeued = requeued + $2 where id = $1', [id, samples])
  }
  await db.adhoc("select pg_notify('rewardops', 'w')")
  // Should it fail, missed heartbeats bring them back, after 10 s.
  giveBackUnclaimed(db, queue).catch(() => {})
  return claims.reduce((n, c) => n + c.samples, 0)
}

/**
 * Jobs that the dead took and had no time to claim. Most jobs end before that, and whose a fresh one is nobody can
 * tell: so they are looked for once the living have claimed theirs.
 */
async function giveBackUnclaimed(db: Database, queue: JobQueue): Promise<void> {
  await new Promise((resolve) => setTimeout(resolve, CLAIMED_BY_MS).unref())
  const jobs = await db.adhoc<{ id: string; name: string }>(
    `select id, name from pgboss.job where state = 'active'
       and started_on < clock_timestamp() - $1 * interval '1 millisecond'
       and not exists (select from claim where job_id = job.id)`,
    [CLAIMED_BY_MS],
  )
  for (const pool of new Set(jobs.map((job) => job.name))) {
    await queue.giveBack(
      pool,
      jobs.filter((job) => job.name === pool).map((job) => job.id),
    )
    await db.adhoc("select pg_notify('rewardops', $1)", [`q${pool}`])
  }
}

/** A process that is not known to be dead, or whose jobs have not all been returned. */
interface ProcessToCheck {
  id: number
  host: string
  pid: number
}

const TO_CHECK = `select id, host, pid from process
  where (state <> 'dead' or exists (select 1 from claim where worker_id = process.id))`

/**
 * Processes that have not reported for a while, wherever they ran, lose their jobs to the others. `knownAlone`: only those
 * that have ended for certain; after an outage of the database the others write what they kept before they report.
 */
export async function sweepDeadWorkers(
  db: Database,
  queue: JobQueue,
  knownAlone = false,
): Promise<number> {
  const silent = await db.rows<ProcessToCheck>(
    'silent-processes',
    `${TO_CHECK} and last_seen_at < clock_timestamp() - $1 * interval '1 millisecond'`,
    [DEAD_AFTER_MS],
  )
  return giveBackSilent(db, queue, silent, knownAlone)
}

/** At start: processes of this host that have ended are dead, whatever their row says. */
export async function takeOverDeadLocals(db: Database, queue: JobQueue): Promise<number> {
  const local = await db.adhoc<ProcessToCheck>(`${TO_CHECK} and host = $1`, [hostname()])
  return giveBackSilent(db, queue, local, true)
}

/** `knownAlone`: processes that may still live keep their jobs. */
async function giveBackSilent(
  db: Database,
  queue: JobQueue,
  rows: readonly ProcessToCheck[],
  knownAlone: boolean,
): Promise<number> {
  const { gone = [], silent = [] } = Object.groupBy(rows, (row) =>
    isGone(row) ? 'gone' : 'silent',
  )
  const samples = await giveBackOf(db, queue, gone, true)
  return knownAlone ? samples : samples + (await giveBackOf(db, queue, silent, false))
}

function isGone({ host, pid }: ProcessToCheck): boolean {
  return host === hostname() && !processLives(pid)
}

function processLives(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}
