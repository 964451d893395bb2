import { existsSync, readFileSync } from 'node:fs'
import type { Server } from 'node:http'
import { flushCompileCache } from 'node:module'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { fileURLToPath } from 'node:url'
import { type Config, isLoopback, loadConfig } from './config.ts'
import { FleetMember } from './fleet/fleet-member.ts'
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
import { FunctionsFolder } from './loop/functions-folder.ts'
import { GroupRollUps } from './loop/group-roll-ups.ts'
import { LiveHub } from './loop/live-hub.ts'
import { readServersFile } from './loop/models/launch-file.ts'
import { RewardModelManager } from './loop/models/reward-model-manager.ts'
import { MonitorLoop } from './loop/monitors/monitor-loop.ts'
import { MonitorsView } from './loop/monitors/monitors-view.ts'
import { Playground } from './loop/playground.ts'
import { RewardLoopManager } from './loop/reward-loop-manager.ts'
import { RunMarks } from './loop/run-marks.ts'
import { AboutService } from './loop/settings/about.ts'
import { AuditLog } from './loop/settings/audit-log.ts'
import { KeyRing } from './loop/settings/key-ring.ts'
import { Retention } from './loop/settings/retention.ts'
import { LimitSettings } from './loop/settings/run-limits.ts'
import { BatchSignals } from './loop/signals.ts'
import { Sweeps } from './loop/sweeps.ts'
import { BatchViews } from './loop/views/batch-view.ts'
import { ComponentsView } from './loop/views/components-view.ts'
import { FleetView } from './loop/views/fleet-view.ts'
import { OverviewView } from './loop/views/overview-view.ts'
import { RateMeter } from './loop/views/rate-meter.ts'
import { RewardsView } from './loop/views/rewards-view.ts'
import { RunView } from './loop/views/run-view.ts'
import { SampleViews } from './loop/views/sample-view.ts'
import { ServerView } from './loop/views/server-view.ts'
import { TimelineView } from './loop/views/timeline-view.ts'
import { takeOverDeadLocals, WorkerSupervisor } from './loop/worker-supervisor.ts'
import { AcceptedFunctions } from './rewards/functions/accepted-functions.ts'
import { FunctionPool } from './rewards/functions/function-pool.ts'
import { createServices, createSettingsServices, translateError } from './services.ts'
import { clockOffsetMs } from './store/clock.ts'
import { Database } from './store/database.ts'
import {
  FUNCTIONS_POOL,
  INTERACTIVE_POOL,
  JobQueue,
  RULES_POOL,
  SERVICES_POOL,
} from './store/job-queue.ts'
import { Listener } from './store/listener.ts'
import { openDatabase } from './store/postgres/connect.ts'
import { functionSource } from './store/sql/function-sources.ts'
import { lastStep } from './store/sql/last-step.ts'
import { ensureTextPartition, textBucket } from './store/text-partitions.ts'
import { SharedLimits } from './worker/shared-limits.ts'

const ROOT = fileURLToPath(new URL('..', import.meta.url))

/** SIGTERM drains for at most this long. */
const STOP_MS = 8_000
/** What is under way through the router address may take this long of it. */
const PROXY_DRAIN_MS = 5_000
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
  let probe: (() => Promise<string | null>) | null = null
  let pids = () => ({
    server: process.pid,
    postgres: null as number | null,
    workers: [] as number[],
  })
  const access = new Access(config)
  const routes: Routes = {
    health: createHealth({
      problem: async () => starting ?? (await probe?.()) ?? null,
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

  const database = await openDatabase({
    databaseUrl: config.databaseUrl,
    dataDir: config.dataDir,
    log,
  })
  const db = new Database(database.url, log, { max: 16, name: 'rewardops server', keyed: true })
  // Pages have their own connections and a time limit: a slow chart never stands before a trainer.
  const pagesDb = new Database(database.url, log, {
    max: 6,
    name: 'rewardops pages',
    statementTimeoutMs: 10_000,
    keyed: true,
  })
  const metricsDb = new Database(database.url, log, {
    max: 1,
    name: 'rewardops metrics',
    statementTimeoutMs: 2_000,
  })
  const exportDb = new Database(database.url, log, {
    max: 2,
    name: 'rewardops export',
    statementTimeoutMs: 30_000,
    keyed: true,
  })
  const retentionDb = new Database(database.url, log, {
    max: 3,
    name: 'rewardops retention',
    statementTimeoutMs: 30_000,
    keyed: true,
    lazyCommits: true,
  })
  const queue = new JobQueue(db, log, { supervise: true })
  await queue.start()
  for (const pool of [RULES_POOL, FUNCTIONS_POOL, SERVICES_POOL, INTERACTIVE_POOL]) {
    await queue.ensure(pool)
    await db.adhoc('insert into pool (name) values ($1) on conflict do nothing', [pool])
  }
  await ensureTextPartition(db, textBucket())

  const keys = new KeyRing({
    db,
    log,
    configured: config.apiKeys.length > 0,
    loopbackOnly: isLoopback(config.host),
  })
  await keys.start()
  access.use(keys)
  const retention = new Retention(retentionDb, log)
  const settings = createSettingsServices({
    access,
    loopbackOnly: isLoopback(config.host),
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
  })

  const offset = clockOffsetMs(db)
  const signals = new BatchSignals()
  const live = new LiveHub()
  let workers: WorkerSupervisor | null = null
  const functions = new AcceptedFunctions(config.functions)
  const manager = new RewardLoopManager(
    db,
    { db, queue, functions, clockOffsetMs: () => offset },
    signals,
    { send: (message, turn) => workers?.send(message, turn) ?? false },
  )
  const models = new RewardModelManager({
    db,
    queue,
    log,
    launch: {
      dataDir: config.dataDir,
      env: config.inherited,
      servers: toLaunch,
      allowCalls: config.allowLaunch,
    },
  })
  const rates = new RateMeter()
  const batches = new BatchViews(pagesDb, manager.readerOn(pagesDb), rates)
  const fleet = new FleetView(pagesDb)
  const member = new FleetMember({
    holderId: 0,
    process: 'server',
    db,
    log,
    router: { joins: { rowsPerCall: config.samplesPerCall } },
  })
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
  const services = createServices({
    db: pagesDb,
    manager,
    models,
    batches,
    timelines: new TimelineView(pagesDb, manager.readerOn(pagesDb)),
    samples: new SampleViews(pagesDb),
    runs: new RunView(pagesDb),
    fleet,
    servers: new ServerView(pagesDb, fleet),
    overview: new OverviewView(pagesDb, fleet, batches, config.workers),
    components: new ComponentsView(pagesDb),
    rewards: new RewardsView(fleet, new FunctionsFolder(config.functionsDir)),
    playground,
    monitors: new MonitorsView(pagesDb),
    webhooks: new Webhooks(pagesDb),
    marks: new RunMarks(pagesDb),
    live,
    settings,
  })
  const ingest = new IngestClient(
    { databaseUrl: database.url, functions: config.functions, logLevel: config.logLevel },
    log,
  )
  routes.trpc = createTrpcPlane({
    services,
    ingest,
    access,
    version,
    log,
    translate: translateError,
  })

  routes.exports = createExport({ db: exportDb, access, translate: translateError })
  routes.compat = createCompat({
    access,
    score: (input, signal) => services.score(input, signal),
    lastStep: (run) => lastStep(db, run),
    translate: translateError,
  })

  await member.start()
  fleet.own = () => member.servers()
  const proxy = createRouterProxy({
    router: member.router,
    servers: () => member.models.servers,
    access,
    log,
    refresh: () => member.reload(),
    onAsleep: (model) => models.wakeModel(model),
  })
  routes.proxy = proxy.handle
  routes.metrics = createMetrics({
    db: metricsDb,
    access,
    version,
    own: () => member.servers(),
    liveStreams: () => live.subscribers,
    log,
  })

  const listener = new Listener(
    database.url,
    log,
    (payload) => {
      const kind = payload[0]
      if (kind === 'b') {
        signals.notify(Number(payload.slice(1)))
        live.touch('overview', 'batches', 'samples', `batch:${payload}`)
      } else if (kind === 'f') {
        manager
          .endFailed(Number(payload.slice(1)))
          .catch((error: Error) => log.warn({ err: error.message }, 'a failed batch was not ended'))
      } else if (kind === 'w') live.touch('workers', 'overview')
      else if (kind === 'a') keys.changed()
      else if (kind === 's') {
        void member.reload()
        live.touch('servers', 'overview')
      } else if (kind === 'm') live.touch('monitors', 'overview')
      else if (kind === 'k') live.touch('marks')
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
  const sweeps = new Sweeps({ db, queue, log, closeBatch: (id) => manager.closeById(id) })
  sweeps.start()
  const groupRollUps = new GroupRollUps(db, log)
  groupRollUps.start()
  retention.start()
  const alerts = new AlertSender(db, log)
  alerts.start()
  const monitorLoop = new MonitorLoop(db, log, () => alerts.wake())
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
  supervisor.start()
  models.start()
  pids = () => ({
    server: process.pid,
    postgres: database.embedded?.pid ?? null,
    workers: supervisor.pids,
  })
  probe = async () => {
    const seen = db.adhoc<{ n: number }>(
      `select count(*)::int as n from worker where state = 'alive' and last_seen_at > now() - interval '5 seconds'`,
    )
    const rows = await inTime(seen, 2_000)
    if (rows === null) throw new Error('the database does not answer')
    return rows[0]!.n === 0 && config.workers > 0 ? 'no worker is alive yet' : null
  }
  starting = null

  routes.pages = openPages(config, port, server, log, (render) =>
    withFirstOverview(render, { services, access, log }),
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
    const last = setTimeout(() => process.exit(0), STOP_MS)
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
      proxy.close(PROXY_DRAIN_MS),
    ])
    manager.stop()
    // Nobody calls the launched servers any more.
    const leftMs = STOP_MS - LAST_STEPS_MS - (performance.now() - begunAt)
    await Promise.allSettled([
      ingest.close(),
      listener.close(),
      queue.stop(),
      member.close(),
      models.close(Math.max(0, leftMs)),
    ])
    server.closeIdleConnections()
    await inTime(
      Promise.allSettled(
        [db, pagesDb, metricsDb, exportDb, retentionDb].map((each) => each.close()),
      ),
      700,
    )
    await database.close()
    process.exit(0)
  }
  process.on('SIGTERM', () => void stop('SIGTERM'))
  process.on('SIGINT', () => void stop('SIGINT'))
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
  process.stderr.write(`rewardops could not start: ${error.message}\n`)
  process.exit(1)
})
