import { type ChildProcess, spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import type { WorkerChannel } from '../batches/direct-scores.ts'
import { DEAD_AFTER_MS } from '../cluster/process-row.ts'
import { workerEnvironment } from '../config.ts'
import type {
  DirectEndMessage,
  DirectScoreMessage,
  ForgetScoreMessage,
} from '../contract/direct-score.ts'
import type { EndedMessage } from '../contract/ended-message.ts'
import type { LocalSandbox, SandboxMessage } from '../contract/sandbox.ts'
import { KeptChild } from '../kept-child.ts'
import type { Logger } from '../log.ts'
import { hasThisPidSpace, isOfTwinContainer, PROCESS_HOST } from '../process-host.ts'
import { processLives } from '../process-signals.ts'
import { notify } from '../store/channels.ts'
import { type Database, throughOutage } from '../store/database.ts'
import type { JobQueue } from '../store/job-queue.ts'
import { takeClaims, unclaimedJobs } from '../store/sql/claims.ts'
import { dropLeases } from '../store/sql/leases.ts'
import {
  countRequeued,
  markDead,
  type ProcessToCheck,
  processesToCheck,
  silentProcesses,
} from '../store/sql/processes.ts'

/**
 * A fetched job that is not claimed within this time belongs to a dead worker. Live workers claim a job 250 ms after
 * they fetch it, or later on a busy machine.
 */
const CLAIMED_BY_MS = 1_500
/** Time for the workers to exit after SIGTERM. The whole service must stop within 8 s. */
const STOP_MS = 6_500

export interface SupervisorOptions {
  count: number
  databaseUrl: string
  env: NodeJS.ProcessEnv
  /** `host:port` of the router address. */
  routerAddress: string
  sandbox: () => Promise<LocalSandbox>
  /** Receives all messages of the workers except requests for the sandbox. */
  onMessage: (message: EndedMessage | DirectEndMessage) => void
  db: Database
  queue: JobQueue
  log: Logger
}

/**
 * Starts the local workers with the server. When a worker dies, its jobs are requeued immediately, and it is restarted
 * after a back-off.
 *
 *   start ─▶ running ──exit──▶ jobs requeued ──back-off──▶ start
 */
export class WorkerSupervisor implements WorkerChannel {
  readonly #options: SupervisorOptions
  readonly #workers: KeptChild[]
  #stopping = false

  constructor(options: SupervisorOptions) {
    this.#options = options
    const { count, log } = options
    const worker = () =>
      new KeptChild({
        name: 'worker',
        log,
        spawn: () => this.#spawnWorker(),
        onStarted: (child) => this.#listenTo(child),
        onDied: (pid) => void this.requeue(pid),
      })
    this.#workers = Array.from({ length: count }, worker)
  }

  start(): void {
    for (const worker of this.#workers) worker.start()
  }

  get #children(): ChildProcess[] {
    return this.#workers.flatMap(({ child }) => child ?? [])
  }

  get pids(): number[] {
    return this.#children.map((child) => child.pid as number)
  }

  send(message: DirectScoreMessage | ForgetScoreMessage, turn: number): boolean {
    const children = this.#children
    const child = children[turn % Math.max(1, children.length)]
    if (child === undefined || !child.connected || this.#stopping) return false
    child.send(message, () => {})
    return true
  }

  #listenTo(child: ChildProcess): void {
    child.on('message', (message: EndedMessage | DirectEndMessage | SandboxMessage) => {
      if (message.type !== 'sandbox') {
        this.#options.onMessage(message)
        return
      }
      void this.#options.sandbox().then((sandbox) => {
        const answer: SandboxMessage = { type: 'sandbox', sandbox }
        if (child.connected) child.send(answer, () => {})
      })
    })
  }

  #spawnWorker(): ChildProcess {
    const { env, input } = workerEnvironment(this.#options.env, this.#options)
    const child = spawn(
      process.execPath,
      [
        // Limits a worker's memory to about 300 MB.
        '--max-old-space-size=192',
        '--max-semi-space-size=16',
        fileURLToPath(new URL('../worker/start.ts', import.meta.url)),
        '--local',
      ],
      {
        stdio: ['pipe', 'inherit', 'inherit', 'ipc'],
        env,
      },
    )
    // Ignore the error if the worker ends before it has read its input.
    child.stdin?.on('error', () => {}).end(input)
    return child
  }

  async requeue(pid: number): Promise<void> {
    const { db, queue, log } = this.#options
    await throughOutage(
      async () => {
        await requeueJobsOf(db, queue, await processesToCheck(db, PROCESS_HOST, pid), true)
      },
      { forMs: 60_000 },
    ).catch((error: Error) =>
      log.warn({ err: error.message }, 'jobs of a dead worker were not returned to the queue'),
    )
  }

  async stop(): Promise<void> {
    this.#stopping = true
    await Promise.all(this.#workers.map((worker) => worker.stop(STOP_MS)))
  }
}

/**
 * Marks processes as dead and requeues their jobs. Returns the number of requeued samples. `isGone`: the processes have
 * ended, so their leases are dropped. Otherwise they only stopped reporting, and their leases count until they expire,
 * because calls may still be in flight.
 */
async function requeueJobsOf(
  db: Database,
  queue: JobQueue,
  processes: readonly { id: number }[],
  isGone: boolean,
): Promise<number> {
  if (processes.length === 0) return 0
  const processIds = processes.map(({ id }) => id)
  const ids = await markDead(db, processIds)
  if (isGone) await dropLeases(db, processIds)
  if (ids.length === 0) return 0
  const claims = await takeClaims(db, ids)
  for (const pool of new Set(claims.map((c) => c.queue))) {
    const jobs = claims.filter((c) => c.queue === pool).map((c) => c.job_id)
    await queue.requeue(pool, jobs)
    await notify(db.pool, 'jobsQueued', pool)
  }
  for (const id of ids) {
    const samples = claims.filter((c) => c.worker_id === id).reduce((n, c) => n + c.samples, 0)
    if (samples > 0) await countRequeued(db, id, samples)
  }
  await notify(db.pool, 'workersChanged')
  // If this fails, pg-boss returns the jobs after 10 s without a heartbeat.
  requeueUnclaimed(db, queue).catch(() => {})
  return claims.reduce((n, c) => n + c.samples, 0)
}

/**
 * Requeues jobs that a dead worker fetched but had no time to claim. An unclaimed job may also belong to a
 * live worker, so the search starts only after live workers have had time to claim theirs.
 */
async function requeueUnclaimed(db: Database, queue: JobQueue): Promise<void> {
  await new Promise((resolve) => setTimeout(resolve, CLAIMED_BY_MS).unref())
  const jobs = await unclaimedJobs(db, CLAIMED_BY_MS)
  for (const pool of new Set(jobs.map((job) => job.name))) {
    await queue.requeue(
      pool,
      jobs.filter((job) => job.name === pool).map((job) => job.id),
    )
    await notify(db.pool, 'jobsQueued', pool)
  }
}

/**
 * Requeues the jobs of processes on any host that have not reported for a while. With `knownAlone`, only processes
 * that have certainly ended are included, because after a database outage live workers write their kept results
 * before they report.
 */
export async function sweepDeadWorkers(
  db: Database,
  queue: JobQueue,
  knownAlone = false,
): Promise<number> {
  const silent = await silentProcesses(db, DEAD_AFTER_MS)
  return requeueSilent(db, queue, silent, knownAlone)
}

/**
 * Requeues the jobs of processes that have ended, even if their table rows say otherwise. Called at start. With
 * DATABASE_URL, processes of other containers are not included, even if the host names are equal. With an embedded
 * Postgres, which no other container can reach, processes of another pid namespace ended with their container and are
 * included.
 */
export async function requeueOrphans(
  db: Database,
  queue: JobQueue,
  isEmbedded: boolean,
): Promise<number> {
  const rows = await (isEmbedded ? silentProcesses(db, 0) : processesToCheck(db, PROCESS_HOST))
  const gone = rows.filter(({ host, pid }) => !hasThisPidSpace(host) || !processLives(pid))
  return requeueJobsOf(db, queue, gone, true)
}

async function requeueSilent(
  db: Database,
  queue: JobQueue,
  rows: readonly ProcessToCheck[],
  knownAlone: boolean,
): Promise<number> {
  const {
    gone = [],
    twin = [],
    silent = [],
  } = Object.groupBy(rows, ({ host, pid }) => {
    if (host === PROCESS_HOST && !processLives(pid)) return 'gone'
    return isOfTwinContainer(host) ? 'twin' : 'silent'
  })
  const samples = await requeueJobsOf(db, queue, gone, true)
  if (knownAlone) return samples
  // A restarted container has a new pid namespace. If its earlier processes kept their leases, the new ones would get
  // no slots for half a minute.
  const ofTwins = await requeueJobsOf(db, queue, twin, true)
  return samples + ofTwins + (await requeueJobsOf(db, queue, silent, false))
}
