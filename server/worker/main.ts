import { ProcessRow } from '../cluster/process-row.ts'
import { SharedServers } from '../cluster/shared-servers.ts'
import { loadConfig, loadWorkerHandover } from '../config.ts'
import type { DirectScoreMessage, ForgetScoreMessage } from '../contract/direct-score.ts'
import type { EndedMessage } from '../contract/ended-message.ts'
import type { LocalSandbox, SandboxMessage } from '../contract/sandbox.ts'
import { EventLoopDelay } from '../event-loop-delay.ts'
import { createLogger, type Logger } from '../log.ts'
import { FunctionPool } from '../rewards/functions/function-pool.ts'
import { planFunctions } from '../rewards/functions/plan-functions.ts'
import { ReachableSandboxes } from '../rewards/sandboxes.ts'
import { setEgressPolicy } from '../router/server-admission.ts'
import { SandboxProcess, TRY_AGAIN_MS } from '../sandbox/sandbox-process.ts'
import { stopRequests } from '../stop-request.ts'
import { WORKER_POOL } from '../store/connection-budget.ts'
import { Database, throughOutage } from '../store/database.ts'
import { installFunctions } from '../store/functions.ts'
import { FUNCTIONS_POOL, JobQueue, SANDBOX_POOL } from '../store/job-queue.ts'
import { Listener } from '../store/listener.ts'
import { workerProblem } from '../store/schema-version.ts'
import { openSecrets } from '../store/secret-keys.ts'
import { durationAsStored } from '../store/sql/flush.ts'
import { functionSource } from '../store/sql/function-sources.ts'
import { withTimeout } from '../with-timeout.ts'
import { DirectScores } from './direct-scores.ts'
import type { EndedSample } from './result-writer.ts'
import { RewardLoopWorker } from './reward-loop-worker.ts'
import { SharedLimits } from './shared-limits.ts'
import { WorkerReport } from './worker-report.ts'

/** Time that a starting worker waits for the database, ms. */
const START_MS = 10_000
const DRAIN_MS = 5_000
/**
 * Maximum time, after {@link DRAIN_MS}, to write finished samples and requeue the others, ms. It is limited, because
 * the database may be unreachable.
 */
const RETURN_MS = 2_500
/** Time after which a stopping worker exits in any case, ms. No worker outlives its service by more than 10 s. */
const EXIT_MS = 9_500

/**
 * Delay before a worker fetches jobs when it is another worker's turn, ms. After the delay, it fetches the jobs that
 * are left, because the other worker may be busy.
 */
const NOT_ITS_TURN_MS = 25

async function main(): Promise<void> {
  const { local, routerAddress } = loadWorkerHandover()
  const config = loadConfig()
  setEgressPolicy(config.egressAllow)
  const log = createLogger(config.logLevel, 'worker')
  if (!config.databaseUrl) {
    throw new Error('A worker needs DATABASE_URL: the URL of the database that the service uses.')
  }
  const db = new Database(config.databaseUrl, log, WORKER_POOL)
  const problem = await throughOutage(() => workerProblem(db.pool), { forMs: START_MS })
  if (problem !== null) throw new Error(problem)
  db.secrets = await throughOutage(
    () => openSecrets(db, config.secrets, { mayCreate: false, log }),
    { forMs: START_MS },
  )
  const row = await ProcessRow.register(db, 'worker', local)
  await installFunctions(db.pool)
  const { id, clock } = row
  const queue = new JobQueue(db, log, { supervise: false })
  await queue.start()
  const servers = new SharedServers({
    holderId: id,
    process: row.name,
    db,
    log,
    router: { microBatching: { samplesPerRequest: config.samplesPerCall } },
  })
  const { router, leases, models } = servers
  const functions = new FunctionPool({
    ...(await planFunctions(config.functions)),
    sources: (hash) => functionSource(db, hash),
    router,
    rewardRouterAddress: routerAddress,
    onCapacity: () => worker.intake.pump(FUNCTIONS_POOL),
    log,
  })
  if (functions.problem !== null) {
    log.error({ reason: functions.problem }, 'this worker takes no jobs of reward functions')
  }
  const limits = new SharedLimits(db, leases, log)
  const sandbox = local ? sandboxOfServer() : new SandboxProcess(config.inherited, log)
  const sandboxes = new ReachableSandboxes(() => sandbox.ready())
  const tools = { router, functions, limits, sandboxes }
  const worker = new RewardLoopWorker({
    id,
    db,
    queue,
    tools,
    leases,
    slotsOf: (model) => models.slotsOf(model),
    fairShareOf: (model) => models.fairShareOf(model),
    wantSlots: (model) => models.wantSlots(model),
    functionCapacity: () => functions.capacity,
    limiterCapacity: (pool) => limits.capacityOf(pool),
    clock,
    onUrgentCommitted: process.send ? (samples) => notifyServer(id, samples) : null,
    log,
  })
  models.onPool = (name, model) => {
    worker.intake.add(name, model)
    worker.intake.pump(name)
  }
  // The service has checked the sandbox of a local worker. Any other worker takes jobs of the rule `code` only once its
  // own sandbox works.
  if (local) worker.intake.add(SANDBOX_POOL, null)
  else void serveSandboxPool(sandbox, worker, log)
  await servers.start()
  const listener = new Listener(
    config.databaseUrl,
    log,
    {
      jobsQueued(of) {
        const [pool, turn] = of.split(':') as [string, string | undefined]
        if (!worker.intake.has(pool)) void models.reload()
        else if (turn === undefined || models.isTurnOf(id, Number(turn))) worker.intake.pump(pool)
        else setTimeout(() => worker.intake.pump(pool), NOT_ITS_TURN_MS)
      },
      batchEnded: (batchId) => worker.batchEnded(Number(batchId)),
      serversChanged: () => void models.reload(),
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
    clock,
    counters: worker.counters,
    tell: (message) => process.send?.(message, () => {}),
  })
  process.on('message', (message: DirectScoreMessage | ForgetScoreMessage | SandboxMessage) => {
    if (message.type === 'score') void direct.score(message)
    else if (message.type === 'forget') direct.forget(message.id)
  })
  row.onDeclaredDead = (atMs) => worker.giveUpJobs(atMs)
  const report = new WorkerReport({
    ...{ db, row, queue, worker, servers, loopDelay: new EventLoopDelay(), log },
    functionProblem: functions.problem,
  })
  report.start()
  log.info({ worker: `w${id}`, local }, 'worker ready')

  let stopping: Promise<void> | null = null
  const stop = (why: string) => {
    stopping ??= (async () => {
      log.info({ why }, 'worker stopping')
      setTimeout(() => process.exit(1), EXIT_MS).unref()
      await withTimeout(report.stopping(), 500)
      await worker.stop(DRAIN_MS, RETURN_MS)
      await functions.close()
      await sandbox.stop()
      sandboxes.close()
      limits.close()
      await report.ended()
      await listener.close()
      await servers.close()
      await withTimeout(db.close(), 500)
    })()
      .catch((error: Error) => log.warn({ err: error.message }, 'worker stopped uncleanly'))
      .then(() => process.exit(0))
    return stopping
  }
  stopRequests.serve((why) => void stop(why))
}

/** The sandbox of the service that started this worker. The service starts the sandbox at the first request. */
function sandboxOfServer(): Pick<SandboxProcess, 'ready' | 'stop'> {
  let answer: Promise<LocalSandbox> | null = null
  const ask = () =>
    new Promise<LocalSandbox>((resolve) => {
      const onMessage = (message: SandboxMessage | { type: '' }) => {
        if (message.type !== 'sandbox' || message.sandbox === undefined) return
        process.off('message', onMessage)
        resolve(message.sandbox)
      }
      process.on('message', onMessage)
      process.send?.({ type: 'sandbox' } satisfies SandboxMessage, () => {})
    })
  return {
    ready: () => {
      answer ??= ask().then((sandbox) => {
        // A failure is not kept, because the service may have a sandbox later.
        if (!sandbox.ok) answer = null
        return sandbox
      })
      return answer
    },
    stop: async () => {},
  }
}

async function serveSandboxPool(
  sandbox: Pick<SandboxProcess, 'ready'>,
  worker: RewardLoopWorker,
  log: Logger,
): Promise<void> {
  for (let tries = 1; ; tries++) {
    const state = await sandbox.ready()
    if (state.ok) break
    const { reason, remedy } = state
    if (tries === 1) log.warn({ reason, remedy }, 'this worker takes no samples of the rule code')
    await new Promise((resolve) => setTimeout(resolve, TRY_AGAIN_MS + 1_000).unref())
  }
  worker.intake.add(SANDBOX_POOL, null)
  worker.intake.pump(SANDBOX_POOL)
}

function notifyServer(workerId: number, samples: EndedSample[]): void {
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
      verdict: s.verdict,
      extracted: s.extracted,
      rewards: s.rewards,
      attempts: s.attempts,
      queueMs: durationAsStored(s.queueMs),
      scoreMs: durationAsStored(s.scoreMs),
      serverName: s.serverName === '' ? null : s.serverName,
    })),
  }
  process.send?.(message, () => {})
}

main().catch((error: Error) => {
  if (stopRequests.signal.aborted) return
  process.stderr.write(`worker could not start: ${error.message}\n`)
  process.exit(1)
})
