import { flushCompileCache } from 'node:module'
import { hostname } from 'node:os'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { loadConfig, loadWorkerHandover } from '../config.ts'
import { FleetMember } from '../fleet/fleet-member.ts'
import { inTime } from '../in-time.ts'
import { createLogger } from '../log.ts'
import { FunctionPool } from '../rewards/functions/function-pool.ts'
import { clockOffsetMs } from '../store/clock.ts'
import { Database, throughOutage } from '../store/database.ts'
import { FUNCTIONS_POOL, JobQueue } from '../store/job-queue.ts'
import { Listener } from '../store/listener.ts'
import { durationAsStored } from '../store/sql/flush.ts'
import { functionSource } from '../store/sql/function-sources.ts'
import type { DirectScoreMessage, ForgetScoreMessage } from '../wire/direct-score.ts'
import type { EndedMessage } from '../wire/ended-message.ts'
import { DirectScores } from './direct-scores.ts'
import type { EndedSample } from './result-writer.ts'
import { RewardLoopWorker } from './reward-loop-worker.ts'
import { SharedLimits } from './shared-limits.ts'
import { WorkerReport } from './worker-report.ts'

/** A draining worker waits this long for what is in flight; the server waits 8 s for the worker. */
const DRAIN_MS = 5_000

/** A worker whose turn it is not looks this much later, should the other be busy. */
const NOT_ITS_TURN_MS = 25

/** A worker process: connects, registers, serves the queues until told to stop. */
async function main(): Promise<void> {
  const config = loadConfig()
  const { local, routerAddress } = loadWorkerHandover()
  const log = createLogger(config.logLevel, 'worker')
  if (!config.databaseUrl) {
    throw new Error('A worker needs DATABASE_URL: the address of the database its server uses.')
  }
  const db = new Database(config.databaseUrl, log, {
    max: 8,
    name: 'rewardops worker',
    keyed: true,
    lazyCommits: true,
  })
  const [{ id }] = (await throughOutage(
    () =>
      db.adhoc<{ id: number }>(
        `insert into worker (host, pid, local, state) values ($1, $2, $3, 'alive') returning id`,
        [hostname(), process.pid, local],
      ),
    { forMs: 10_000 },
  )) as [{ id: number }]
  const queue = new JobQueue(db, log, { supervise: false })
  await queue.start()
  const fleet = new FleetMember({
    holderId: id,
    process: `w${id}`,
    db,
    log,
    router: { joins: { rowsPerCall: config.samplesPerCall } },
  })
  const { router, leases, models } = fleet
  const functions = new FunctionPool({
    ...config.functions,
    sources: (hash) => functionSource(db, hash),
    router,
    rewardRouterAddress: routerAddress,
    onRoom: () => worker.intake.pump(FUNCTIONS_POOL),
    log,
  })
  const limits = new SharedLimits(db, leases, log)
  const tools = { router, functions, limits }
  const offsetMs = await clockOffsetMs(db)
  const worker = new RewardLoopWorker({
    id,
    db,
    queue,
    tools,
    leases,
    slotsOf: (model) => models.slotsOf(model),
    fairShareOf: (model) => models.fairShareOf(model),
    wantSlots: (model) => models.wantSlots(model),
    functionRoom: () => functions.room,
    limiterRoom: (pool) => limits.roomOf(pool),
    clockOffsetMs: offsetMs,
    onUrgentCommitted: process.send ? (samples) => tellServer(id, samples) : null,
    log,
  })
  models.onPool = (name, model) => {
    worker.intake.add(name, model)
    worker.intake.pump(name)
  }
  await fleet.start()
  const listener = new Listener(
    config.databaseUrl,
    log,
    (payload) => {
      const [rest, turn] = payload.slice(1).split(':') as [string, string | undefined]
      if (payload[0] === 'q') {
        if (!worker.intake.has(rest)) void models.reload()
        else if (turn === undefined || models.isTurnOf(id, Number(turn))) worker.intake.pump(rest)
        else setTimeout(() => worker.intake.pump(rest), NOT_ITS_TURN_MS)
      } else if (payload[0] === 'x') worker.batchEnded(Number(rest))
      else if (payload[0] === 's') void models.reload()
    },
    () => {
      void models.reload()
      worker.intake.pumpAll()
    },
  )
  await listener.start()
  const direct = new DirectScores({
    db,
    tools,
    workerId: id,
    clockOffsetMs: offsetMs,
    counters: worker.counters,
    tell: (message) => process.send?.(message, () => {}),
  })
  process.on('message', (message: DirectScoreMessage | ForgetScoreMessage) => {
    if (message.type === 'score') void direct.score(message)
    else if (message.type === 'forget') direct.forget(message.id)
  })
  const loopDelay = monitorEventLoopDelay({ resolution: 10 })
  loopDelay.enable()
  const report = new WorkerReport({ id, db, queue, worker, fleet, loopDelay, log })
  report.start()
  log.info({ worker: `w${id}`, local }, 'worker ready')
  flushCompileCache()

  let stopping: Promise<void> | null = null
  const stop = (why: string) => {
    stopping ??= (async () => {
      log.info({ why }, 'worker stopping')
      await report.stopping()
      await worker.stop(DRAIN_MS)
      await functions.close()
      limits.close()
      await report.ended()
      await listener.close()
      await fleet.close()
      await inTime(db.close(), 500)
    })()
      .catch((error: Error) => log.warn({ err: error.message }, 'worker stopped uncleanly'))
      .then(() => process.exit(0))
    return stopping
  }
  process.on('SIGTERM', () => void stop('SIGTERM'))
  // Ctrl-C reaches the whole process group: the server decides, through SIGTERM or by going away.
  process.on('SIGINT', () => {
    if (!local) void stop('SIGINT')
  })
  process.on('disconnect', () => void stop('the server went away'))
}

/** Tells the server that started this worker what was just committed. */
function tellServer(workerId: number, samples: EndedSample[]): void {
  if (!process.connected) return
  const message: EndedMessage = {
    type: 'ended',
    workerId,
    samples: samples.map((s) => ({
      batchId: s.batchId,
      index: s.index,
      score: s.score,
      rawScore: s.rawScore,
      reason: s.reason,
      substituted: s.substituted,
      extra: s.extra,
      attempts: s.attempts,
      queueMs: durationAsStored(s.queueMs),
      scoreMs: durationAsStored(s.scoreMs),
      serverName: s.serverName === '' ? null : s.serverName,
    })),
  }
  process.send?.(message, () => {})
}

main().catch((error: Error) => {
  process.stderr.write(`worker could not start: ${error.message}\n`)
  process.exit(1)
})
