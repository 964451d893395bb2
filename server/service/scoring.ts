import { WorkerSupervisor } from '../background/worker-supervisor.ts'
import { IngestClient } from '../batches/accept/ingest-client.ts'
import { Playground } from '../batches/playground.ts'
import { RewardLoopManager } from '../batches/reward-loop-manager.ts'
import { BatchSignals } from '../batches/signals.ts'
import { SharedServers } from '../cluster/shared-servers.ts'
import type { Config } from '../config.ts'
import type { Logger } from '../log.ts'
import type { readServersFile } from '../model-servers/launch-file.ts'
import { RewardModelManager } from '../model-servers/reward-model-manager.ts'
import { AcceptedFunctions } from '../rewards/functions/accepted-functions.ts'
import { FunctionPool } from '../rewards/functions/function-pool.ts'
import type { PlannedFunctions } from '../rewards/functions/plan-functions.ts'
import { ReachableSandboxes } from '../rewards/sandboxes.ts'
import { SandboxProcess } from '../sandbox/sandbox-process.ts'
import { IMAGES_SINCE } from '../store/schema-version.ts'
import { functionSource } from '../store/sql/function-sources.ts'
import { SharedLimits } from '../worker/shared-limits.ts'
import type { Front } from './front.ts'
import type { Stores } from './stores.ts'

/** The modules that accept batches and have them scored. No module works before it is started. */
export interface Scoring {
  /** Wakes long polls. */
  signals: BatchSignals
  manager: RewardLoopManager
  /** Parses large bodies in a separate thread. */
  ingest: IngestClient
  supervisor: WorkerSupervisor
  /** The sandbox that this process and its local workers share. */
  sandbox: SandboxProcess
  models: RewardModelManager
  /** This process's router and its leases, for the router address and the playground. */
  servers: SharedServers
  playground: Playground
  playedFunctions: FunctionPool
}

/** Creates the modules without starting them. `toLaunch`: the servers in the file REWARDOPS_SERVERS_FILE. */
export function createScoring(
  config: Config,
  toLaunch: ReturnType<typeof readServersFile>,
  { routerAddress }: Pick<Front, 'routerAddress'>,
  { database, databases, queue, row, turns }: Stores,
  functionConfig: PlannedFunctions,
  log: Logger,
): Scoring {
  const db = databases.api
  const signals = new BatchSignals()
  const functions = new AcceptedFunctions(functionConfig)
  const images = () => ({ maxBytes: config.maxImageBytes, isApart: row.allHave(IMAGES_SINCE) })
  const sandbox = new SandboxProcess(config.inherited, log)
  const local = () => sandbox.ready()
  const sandboxes = { named: config.sandbox.named, local }
  const supervisor = new WorkerSupervisor({
    count: config.workers,
    databaseUrl: database.url,
    env: config.inherited,
    routerAddress,
    sandbox: local,
    onMessage: (message) => manager.ended(message),
    db,
    queue,
    log,
  })
  const manager = new RewardLoopManager(
    db,
    { db, queue, functions, images, sandboxes },
    signals,
    supervisor,
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
      processId: row.id,
    },
    isTurn: (kind) => turns.has(kind),
  })
  const servers = new SharedServers({
    holderId: row.id,
    process: row.name,
    db,
    log,
    router: { microBatching: { samplesPerRequest: config.samplesPerCall } },
  })
  const playedFunctions = new FunctionPool({
    ...functionConfig,
    // The playground may run a version of a function that is not stored in the database.
    sources: async (hash) => functions.source(hash) ?? functionSource(db, hash),
    router: servers.router,
    rewardRouterAddress: routerAddress,
    log,
  })
  const playground = new Playground({
    servers: () => servers.models.servers,
    functions,
    sandboxes,
    tools: {
      router: servers.router,
      functions: playedFunctions,
      limits: new SharedLimits(db, servers.leases, log),
      sandboxes: new ReachableSandboxes(local),
    },
    onAsleep: (model) => models.wakeModel(model),
  })
  const ingest = new IngestClient(
    {
      databaseUrl: database.url,
      functions: functionConfig,
      egressAllow: config.egressAllow,
      sandboxes: config.sandbox.named,
      logLevel: config.logLevel,
    },
    images,
    local,
    log,
  )
  return {
    signals,
    manager,
    ingest,
    supervisor,
    sandbox,
    models,
    servers,
    playground,
    playedFunctions,
  }
}
