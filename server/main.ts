import { readFileSync } from 'node:fs'
import { requeueOrphans } from './background/worker-supervisor.ts'
import { loadConfig } from './config.ts'
import { prepareDataDir } from './data-dir.ts'
import { describePlan } from './isolation/isolation.ts'
import { createLogger } from './log.ts'
import { readServersFile } from './model-servers/launch-file.ts'
import { claimLaunched } from './model-servers/launched-process.ts'
import { planFunctions } from './rewards/functions/plan-functions.ts'
import { setEgressPolicy } from './router/server-admission.ts'
import { createBackground } from './service/background.ts'
import { closePort, openFront } from './service/front.ts'
import { createModules, openKeys } from './service/modules.ts'
import { createNotifications } from './service/notifications.ts'
import { openPages } from './service/pages.ts'
import { mountApi, openMetrics, openRouterAddress } from './service/routes.ts'
import { createScoring } from './service/scoring.ts'
import { openStores } from './service/stores.ts'
import { stopRequests } from './stop-request.ts'
import { workersAlive } from './store/sql/fleet.ts'
import { withTimeout } from './with-timeout.ts'

/** Maximum duration of a stop, unless `drainMs` plus the last steps take longer. */
const STOP_MS = 8_000
const ANSWER_MS = 3_000
/** Time reserved during a stop for recording that the process ended. */
const ROW_MS = 500
/** Time reserved at the end of a stop for closing the database, after the launched servers have ended. */
const LAST_STEPS_MS = 1_200

/**
 * The server process: starts the port, the database, the modules, the workers and the pages, and stops them in reverse
 * order. Each file in `service/` creates one group of modules. Only this file combines the groups.
 */
async function main(): Promise<void> {
  const config = loadConfig()
  setEgressPolicy(config.egressAllow)
  prepareDataDir(config.dataDir)
  const toLaunch = config.serversFile === null ? [] : readServersFile(config.serversFile)
  const log = createLogger(config.logLevel, 'server')
  const { version } = JSON.parse(
    readFileSync(new URL('../package.json', import.meta.url), 'utf8'),
  ) as { version: string }

  const front = await openFront(config, log)
  const { server, routes, health, access } = front
  claimLaunched(config.dataDir)
  const stores = await openStores(config, log)
  const { database, databases, queue, row, turns } = stores
  const keys = await openKeys(config, access, stores, log)

  const functions = await planFunctions(config.functions)
  const isolation = describePlan(functions.settings.plan)
  log.info({ isolation: isolation.level, how: isolation.how }, 'isolation of reward functions')
  for (const problem of isolation.missing) log.warn(problem)
  const scoring = createScoring(config, toLaunch, front, stores, functions, log)
  const { signals, manager, ingest, supervisor, sandbox, models, servers, playedFunctions } =
    scoring
  const modules = createModules(config, version, isolation, keys, scoring, stores, log)
  const { live, readiness } = modules
  const background = await createBackground(config, version, modules, stores, log)
  const { tracing } = background
  if (tracing !== null) routes.traceOf = (req) => tracing.contextOf(req.headers)
  const notifications = createNotifications(database.url, scoring, modules, log)

  mountApi(version, front, scoring, modules, stores, log)
  await servers.start()
  const proxy = openRouterAddress(front, scoring, modules, log)
  openMetrics(version, front, scoring, modules, background, stores, log)
  await notifications.start()
  const returned = await requeueOrphans(databases.api, queue, database.embedded !== null)
  if (returned > 0)
    log.warn({ samples: returned }, 'requeued samples of workers that died with the last server')
  for (const part of background.parts) part.start()
  stopRequests.whileStarting(() =>
    Promise.all([supervisor.stop(), sandbox.stop(), models.close(STOP_MS / 2)]),
  )
  supervisor.start()
  models.start()
  readiness.start()

  health.unready = () => readiness.problem
  health.postgresPid = () => database.embedded?.pid ?? null
  health.workerPids = () => supervisor.pids
  health.problem = async () => {
    const alive = await withTimeout(workersAlive(databases.control), 2_000)
    if (alive === null) throw new Error('the database does not answer')
    return alive.length === 0 && config.workers > 0 ? 'no worker is alive yet' : null
  }
  databases.started()
  health.notServing = null

  routes.pages = openPages(config, front, modules, log)
  await routes.pages
  process.stdout.write(
    `rewardops ${version} is on ${front.url}` +
      `${access.requiresKey ? ' (API keys required)' : ' (no API keys: this machine only)'}\n`,
  )

  let stopping = false
  const stop = async (signal: string) => {
    if (stopping) {
      log.warn({ signal }, 'second signal: stopping now')
      process.exit(1)
    }
    stopping = true
    const begunAt = performance.now()
    const stopMs = Math.max(STOP_MS, config.drainMs + LAST_STEPS_MS + 2 * ROW_MS)
    const leftMs = () => Math.max(0, stopMs - LAST_STEPS_MS - (performance.now() - begunAt))
    const last = setTimeout(() => process.exit(0), stopMs)
    last.unref()
    log.info({ signal }, 'stopping')
    routes.stopping = true
    health.notServing = 'stopping'
    signals.stop()
    const answered = closePort(server)
    live.close()
    keys.stop()
    await Promise.allSettled([
      models.stop(),
      ...background.parts.map((part) => part.stop()),
      supervisor.stop(),
      playedFunctions.close(),
      proxy.close(config.drainMs),
    ])
    manager.stop()
    readiness.stop()
    await withTimeout(Promise.all([turns.release(), row.ended()]), ROW_MS)
    await ingest.close().catch(() => {})
    await answered(Math.min(ANSWER_MS, leftMs()))
    // Launched servers close only now, because calls may have needed them until here.
    await Promise.allSettled([
      notifications.close(),
      queue.stop(),
      sandbox.stop(),
      servers.close(),
      models.close(leftMs()),
    ])
    await withTimeout(databases.close(), 700)
    await database.close()
    process.exit(0)
  }
  stopRequests.serve((why) => void stop(why))
}

main().catch((error: Error) => {
  // A cancelled start may fail at any point. The clean-up of the stop request then ends the process.
  if (stopRequests.signal.aborted) return
  process.stderr.write(`rewardops could not start: ${error.message}\n`)
  process.exit(1)
})
