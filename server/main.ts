import { existsSync, readFileSync } from 'node:fs'
import type { Server } from 'node:http'
import { flushCompileCache } from 'node:module'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { fileURLToPath } from 'node:url'
import type { Modules } from './api/context.ts'
import { type Config, isLoopback, loadConfig } from './config.ts'
import { FleetMember } from './fleet/fleet-member.ts'
import { ProcessRow } from './fleet/process-row.ts'
import { Access } from './http/access.ts'
import { createCompat } from './http/compat/compat.ts'
import { createExport } from './http/export.ts'
import { type RenderPage, withFirstOverview } from './http/first-overview.ts'
import { createHealth } from './http/health.ts'
import { createListener, type Handler, type Routes } from './http/listener.ts'
import { createMetrics } from './http/metrics.ts'
import { createRouterProxy } from './http/proxy/router-proxy.ts'
import { createStaticFiles, STATIC_PATH } from './http/static-files.ts'
import { createTrpcPlane } from './http/trpc-plane.ts'
import { inTime } from './in-time.ts'
import { createLogger, type Logger } from './log.ts'
import { IngestClient } from './loop/accept/ingest-client.ts'
import { AlertSender } from './loop/alerts/alert-sender.ts'
import { Webhooks } from './loop/alerts/webhooks.ts'
import { Annotations } from './loop/annotations.ts'
import { BackgroundTurns } from './loop/background-turns.ts'
import { FunctionsFolder } from './loop/functions-folder.ts'
import { GroupRollUps } from './loop/group-roll-ups.ts'
import { LiveHub } from './loop/live-hub.ts'
import { readServersFile } from './loop/models/launch-file.ts'
import { claimLaunched } from './loop/models/launched-process.ts'
import { RewardModelManager } from './loop/models/reward-model-manager.ts'
import { MonitorLoop } from './loop/monitors/monitor-loop.ts'
import { MonitorsView } from './loop/monitors/monitors-view.ts'
import { Playground } from './loop/playground.ts'
import { Readiness } from './loop/readiness.ts'
import { RewardLoopManager } from './loop/reward-loop-manager.ts'
import { RunMarks } from './loop/run-marks.ts'
import { SavedViews } from './loop/saved-views.ts'
import { AboutService } from './loop/settings/about.ts'
import { AuditLog } from './loop/settings/audit-log.ts'
import { KeyRing } from './loop/settings/key-ring.ts'
import { Retention } from './loop/settings/retention.ts'
import { LimitSettings } from './loop/settings/run-limits.ts'
import { BatchSignals } from './loop/signals.ts'
import { Sweeps } from './loop/sweeps.ts'
import { BatchViews } from './loop/views/batch-view.ts'
import { CompareRunsView } from './loop/views/compare-runs.ts'
import { CompareView } from './loop/views/compare-view.ts'
import { ComponentsView } from './loop/views/components-view.ts'
import { FleetView } from './loop/views/fleet-view.ts'
import { OverviewView } from './loop/views/overview-view.ts'
import { PlannerView } from './loop/views/planner-view.ts'
import { RateMeter } from './loop/views/rate-meter.ts'
import { RewardsView } from './loop/views/rewards-view.ts'
import { RunView } from './loop/views/run-view.ts'
import { SampleViews } from './loop/views/sample-view.ts'
import { ServerView } from './loop/views/server-view.ts'
import { TimelineView } from './loop/views/timeline-view.ts'
import { takeOverDeadLocals, WorkerSupervisor } from './loop/worker-supervisor.ts'
import { AcceptedFunctions } from './rewards/functions/accepted-functions.ts'
import { FunctionPool } from './rewards/functions/function-pool.ts'
import { stopRequests } from './stop-request.ts'
import { openServerDatabases } from './store/connection-budget.ts'
import {
  FUNCTIONS_POOL,
  INTERACTIVE_POOL,
  JobQueue,
  RULES_POOL,
  SERVICES_POOL,
} from './store/job-queue.ts'
import { Listener } from './store/listener.ts'
import { openDatabase } from './store/postgres/connect.ts'
import { workersAlive } from './store/sql/fleet.ts'
import { functionSource } from './store/sql/function-sources.ts'
import { lastStep } from './store/sql/last-step.ts'
import { ensureTextPartition, textBucket } from './store/text-partitions.ts'
import { SharedLimits } from './worker/shared-limits.ts'

const ROOT = fileURLToPath(new URL('..', import.meta.url))

/** A stop takes at most this long, or `drainMs` and the last steps where that is longer. */
const STOP_MS = 8_000
/** The advisory lock under which a server prepares queues and partitions as it starts. */
const START_LOCK = 72_707_382
/** Of the stop, for saying that it ends. */
const ROW_MS = 500
/** Kept of it for what comes after the launched servers: the database. */
const LAST_STEPS_MS = 1_200

/**
 * The server process: config → database → queue → workers → HTTP, and back in the other order.
 * The composition root: the only place that knows all the parts.
 */
async function main(): Promise<void> {
  const config = loadConfig()
  const toLaunch = config.serversFile === null ? [] : readServersFile(config.serversFile)
  const log = createLogger(config.logLevel, 'server')
  const { version } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as {
    version: string
  }
  const loopDelay = monitorEventLoopDelay({ resolution: 10 })
  loopDelay.enable()

  let starting: string | null = 'starting: the database is not up yet'
  let unready: (() => string | null) | null = null
  let probe: (() => Promise<string | null>) | null = null
  let pids = () => ({
    server: process.pid,
    postgres: null as number | null,
    workers: [] as number[],
  })
  const access = new Access(config)
  const routes: Routes = {
    health: createHealth({
      unready: () => starting ?? unready?.() ?? null,
      problem: async () => (await probe?.()) ?? null,
      pids: () => pids(),
      eventLoopMaxMs() {
        const ms = Math.max(0, loopDelay.max / 1e6 - 10)
        loopDelay.reset()
        return Math.round(ms * 10) / 10
      },
    }),
    trpc: null,
    proxy: null,
    pages: null,
    stopping: false,
  }
  const server = createListener(access, routes, log)
  await new Promise<void>((resolve, reject) => {
    server.once('error', (error: NodeJS.ErrnoException) =>
      reject(
        error.code === 'EADDRINUSE'
          ? new Error(`Port ${config.port} on ${config.host} is taken. Set PORT to a free one.`)
          : error,
      ),
    )
    server.listen(config.port, config.host, resolve)
  })
  const { port } = server.address() as AddressInfo

  claimLaunched(config.dataDir)
  const opening = openDatabase({
    databaseUrl: config.databaseUrl,
    dataDir: config.dataDir,
    signal: stopRequests.signal,
    log,
  })
  stopRequests.whileStarting(async () => (await opening).close())
  const database = await opening
  const databases = openServerDatabases(database.url, log)
  const { api: db, pages: pagesDb } = databases
  const queue = new JobQueue(db, log, { supervise: true })
  // Of servers that start together on a new database one makes the tables.
  await db.holding(async (client) => {
    await client.query('select pg_advisory_lock($1)', [START_LOCK])
    await queue.start()
    for (const pool of [RULES_POOL, FUNCTIONS_POOL, SERVICES_POOL, INTERACTIVE_POOL]) {
      await queue.ensure(pool)
      await db.adhoc('insert into pool (name) values ($1) on conflict do nothing', [pool])
    }
    await ensureTextPartition(db, textBucket())
    await client.query('select pg_advisory_unlock($1)', [START_LOCK])
  })
  const row = await ProcessRow.register(databases.control, 'server', false)
  const turns = new BackgroundTurns(db, row.id)

  const keys = new KeyRing({
    db,
    log,
    configured: access.configuredNames,
    loopbackOnly: isLoopback(config.host),
  })
  await keys.start()
  access.use(keys)
  const retention = new Retention(databases.background, log, () => turns.has('retention'))

  const signals = new BatchSignals()
  const live = new LiveHub()
  let workers: WorkerSupervisor | null = null
  const functions = new AcceptedFunctions(config.functions)
  const manager = new RewardLoopManager(
    db,
    { db, queue, functions },
    signals,
    { send: (message, turn) => workers?.send(message, turn) ?? false },
    () => row.clock.nowMs(),
  )
  const models = new RewardModelManager({
    db,
    control: databases.control,
    queue,
    log,
    launch: {
      dataDir: config.dataDir,
      env: config.inherited,
      servers: toLaunch,
      allowCalls: config.allowLaunch,
    },
    isTurn: (kind) => turns.has(kind),
  })
  const rates = new RateMeter()
  const batches = new BatchViews(pagesDb, manager.readerOn(pagesDb), rates)
  const member = new FleetMember({
    holderId: row.id,
    process: row.name,
    db,
    log,
    router: { joins: { rowsPerCall: config.samplesPerCall } },
  })
  const fleet = new FleetView(pagesDb, row.id, () => member.servers())
  const routerAddress = `${config.host.includes(':') ? `[${config.host}]` : config.host}:${port}`
  // What is tried need not be stored.
  const playedFunctions = new FunctionPool({
    ...config.functions,
    sources: async (hash) => functions.source(hash) ?? functionSource(db, hash),
    router: member.router,
    rewardRouterAddress: routerAddress,
    log,
  })
  const playground = new Playground({
    servers: () => member.models.servers,
    functions,
    tools: {
      router: member.router,
      functions: playedFunctions,
      limits: new SharedLimits(db, member.leases, log),
    },
    onAsleep: (model) => models.wakeModel(model),
  })
  const ingest = new IngestClient(
    { databaseUrl: database.url, functions: config.functions, logLevel: config.logLevel },
    log,
  )
  const readiness = new Readiness({
    db: databases.control,
    write: () => row.report({ servers: member.servers() }),
    log,
  })
  const modules: Modules = {
    manager,
    reader: manager.reader,
    batches,
    timelines: new TimelineView(pagesDb, manager.readerOn(pagesDb)),
    samples: new SampleViews(pagesDb),
    annotations: new Annotations(pagesDb),
    savedViews: new SavedViews(pagesDb),
    runs: new RunView(pagesDb),
    marks: new RunMarks(pagesDb),
    comparedBatches: new CompareView(pagesDb),
    comparedRuns: new CompareRunsView(pagesDb),
    planner: new PlannerView(pagesDb),
    overview: new OverviewView(pagesDb, fleet, batches, config.workers),
    fleet,
    servers: new ServerView(pagesDb, fleet),
    models,
    rewards: new RewardsView(fleet, new FunctionsFolder(config.functionsDir)),
    components: new ComponentsView(pagesDb),
    playground,
    monitors: new MonitorsView(pagesDb),
    webhooks: new Webhooks(pagesDb),
    keys,
    limits: new LimitSettings(db),
    retention,
    audit: new AuditLog(db, pagesDb, log),
    about: new AboutService(pagesDb, {
      version,
      embedded: database.embedded !== null,
      dataDir: config.dataDir,
      startedAt: new Date(),
      settings: config.settings,
    }),
    live,
    readiness,
  }
  routes.trpc = createTrpcPlane({ modules, ingest, access, version, log })
  routes.exports = createExport({ db: databases.background, access, readiness })
  routes.compat = createCompat({
    access,
    manager,
    lastStep: (run) => lastStep(db, run),
    readiness,
  })

  await member.start()
  const proxy = createRouterProxy({
    router: member.router,
    servers: () => member.models.servers,
    access,
    log,
    refresh: () => member.reload(),
    onAsleep: (model) => models.wakeModel(model),
  })
  routes.proxy = proxy.handle
  const sweeps = new Sweeps({
    db,
    queue,
    log,
    closeBatch: (id) => manager.closeById(id),
    isTurn: () => turns.has('sweeps'),
    isRecovering: () => readiness.isRecovering,
  })
  routes.metrics = createMetrics({
    db: pagesDb,
    access,
    version,
    own: () => member.servers(),
    liveStreams: () => live.subscribers,
    orphanedSamples: () => sweeps.orphanedSamples,
    log,
  })

  const listener = new Listener(
    database.url,
    log,
    {
      batchChanged(id) {
        signals.notify(Number(id))
        live.touch('overview', 'batches', 'samples', `batch:b${id}`)
      },
      batchFailed(id) {
        manager
          .endFailed(Number(id))
          .catch((error: Error) => log.warn({ err: error.message }, 'a failed batch was not ended'))
      },
      workersChanged: () => live.touch('workers', 'overview'),
      keysChanged: () => keys.changed(),
      serversChanged() {
        void member.reload()
        live.touch('servers', 'overview')
      },
      monitorsChanged: () => live.touch('monitors', 'overview'),
      marksChanged: () => live.touch('marks'),
    },
    () => {
      void member.reload()
      keys.changed()
      signals.notifyAll()
    },
  )
  await listener.start()

  const returned = await takeOverDeadLocals(db, queue)
  if (returned > 0)
    log.warn({ samples: returned }, 'samples of workers that died with the last server given back')
  sweeps.start()
  const groupRollUps = new GroupRollUps(db, log, () => turns.has('group roll-ups'))
  groupRollUps.start()
  retention.start()
  const alerts = new AlertSender(db, log)
  alerts.start()
  const monitorLoop = new MonitorLoop(
    db,
    log,
    () => alerts.wake(),
    () => turns.has('monitors'),
  )
  monitorLoop.start()
  const supervisor = new WorkerSupervisor({
    count: config.workers,
    databaseUrl: database.url,
    env: config.inherited,
    routerAddress,
    onMessage: (message) => manager.ended(message),
    db,
    queue,
    log,
  })
  workers = supervisor
  stopRequests.whileStarting(() => Promise.all([supervisor.stop(), models.close(STOP_MS / 2)]))
  supervisor.start()
  models.start()
  readiness.start()
  unready = () => readiness.problem
  pids = () => ({
    server: process.pid,
    postgres: database.embedded?.pid ?? null,
    workers: supervisor.pids,
  })
  probe = async () => {
    const alive = await inTime(workersAlive(databases.control), 2_000)
    if (alive === null) throw new Error('the database does not answer')
    return alive === 0 && config.workers > 0 ? 'no worker is alive yet' : null
  }
  databases.started()
  starting = null

  routes.pages = openPages(config, port, server, log, (render) =>
    withFirstOverview(render, {
      overview: modules.overview,
      servers: modules.servers,
      access,
      log,
    }),
  )
  await routes.pages
  process.stdout.write(
    `rewardops ${version} is on http://${config.host.includes(':') ? `[${config.host}]` : config.host}:${port}` +
      `${access.needsKey ? ' (keys needed)' : ' (no keys set: this machine only)'}\n`,
  )

  // What was compiled is kept at once: whoever is killed writes nothing.
  flushCompileCache()

  let stopping = false
  const stop = async (signal: string) => {
    if (stopping) {
      log.warn({ signal }, 'second signal: stopping now')
      process.exit(1)
    }
    stopping = true
    const begunAt = performance.now()
    const stopMs = Math.max(STOP_MS, config.drainMs + LAST_STEPS_MS + 2 * ROW_MS)
    const last = setTimeout(() => process.exit(0), stopMs)
    last.unref()
    log.info({ signal }, 'stopping')
    routes.stopping = true
    starting = 'stopping'
    signals.stop()
    server.close()
    live.close()
    keys.stop()
    await Promise.allSettled([
      models.stop(),
      sweeps.stop(),
      groupRollUps.stop(),
      retention.stop(),
      monitorLoop.stop(),
      alerts.stop(),
      supervisor.stop(),
      playedFunctions.close(),
      proxy.close(config.drainMs),
    ])
    manager.stop()
    readiness.stop()
    await inTime(Promise.all([turns.release(), row.ended()]), ROW_MS)
    // Nobody calls the launched servers any more.
    const leftMs = stopMs - LAST_STEPS_MS - (performance.now() - begunAt)
    await Promise.allSettled([
      ingest.close(),
      listener.close(),
      queue.stop(),
      member.close(),
      models.close(Math.max(0, leftMs)),
    ])
    server.closeIdleConnections()
    await inTime(databases.close(), 700)
    await database.close()
    process.exit(0)
  }
  stopRequests.serve((why) => void stop(why))
}

/** Next for the pages; null where they are not wanted, or, with a line in the log, were not built. */
async function openPages(
  config: Config,
  port: number,
  server: Server,
  log: Logger,
  withFirst: (render: RenderPage) => RenderPage,
): Promise<Handler | null> {
  if (!config.pages) return null
  if (!config.dev && !existsSync(join(ROOT, '.next/BUILD_ID'))) {
    log.warn('the pages were not built: only the API answers')
    return null
  }
  const { default: next } = await import('next')
  const app = next({
    dev: config.dev,
    dir: ROOT,
    hostname: config.host,
    port,
    httpServer: server,
  })
  await app.prepare()
  const handle = app.getRequestHandler()
  const render = withFirst((req, res) => handle(req, res))
  // While pages are developed their files change with every keystroke, and are Next's alone.
  if (config.dev) return render
  const statics = await createStaticFiles(join(ROOT, '.next/static'))
  return async (req, res) => {
    const path = (req.url ?? '/').split('?', 1)[0] as string
    if (path.startsWith(STATIC_PATH) && (await statics(path, req, res))) return
    await render(req, res)
  }
}

main().catch((error: Error) => {
  // A start that is given up fails somewhere; its clean-up ends the process.
  if (stopRequests.signal.aborted) return
  process.stderr.write(`rewardops could not start: ${error.message}\n`)
  process.exit(1)
})
