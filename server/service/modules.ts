import { AboutService } from '../admin/about.ts'
import { AuditLog } from '../admin/audit-log.ts'
import { KeyRing } from '../admin/key-ring.ts'
import { Retention } from '../admin/retention.ts'
import { RunConfigs } from '../admin/run-configs.ts'
import { LimitSettings } from '../admin/run-limits.ts'
import { RunMarks } from '../admin/run-marks.ts'
import { SavedViews } from '../admin/saved-views.ts'
import type { Modules } from '../api/context.ts'
import { Scopes } from '../api/scopes.ts'
import { Readiness } from '../background/readiness.ts'
import { Annotations } from '../batches/annotations.ts'
import { type Config, isLoopback } from '../config.ts'
import type { AboutDto } from '../contract/about.ts'
import type { Access } from '../http/access.ts'
import type { Logger } from '../log.ts'
import { Webhooks } from '../monitoring/alerts/webhooks.ts'
import { MonitorsView } from '../monitoring/monitors-view.ts'
import { BatchViews } from '../queries/batch-view.ts'
import { ChangesView } from '../queries/changes-view.ts'
import { CompareRunsView } from '../queries/compare-runs.ts'
import { CompareView } from '../queries/compare-view.ts'
import { ComponentsView } from '../queries/components-view.ts'
import { FleetHistory } from '../queries/fleet-history.ts'
import { FleetView } from '../queries/fleet-view.ts'
import { FunctionsFolder } from '../queries/functions-folder.ts'
import { LiveHub } from '../queries/live-hub.ts'
import { OverviewView } from '../queries/overview-view.ts'
import { PlannerView } from '../queries/planner-view.ts'
import { PromptsView } from '../queries/prompts-view.ts'
import { RateMeter } from '../queries/rate-meter.ts'
import { RewardsView } from '../queries/rewards-view.ts'
import { RunTable } from '../queries/run-table.ts'
import { RunView } from '../queries/run-view.ts'
import { SampleViews } from '../queries/sample-view.ts'
import { ServerView } from '../queries/server-view.ts'
import { TimelineView } from '../queries/timeline-view.ts'
import type { Scoring } from './scoring.ts'
import type { Stores } from './stores.ts'

/** Reads the stored keys and uses them for access checks from now on. @throws when the database does not answer */
export async function openKeys(
  config: Config,
  access: Access,
  { databases, row }: Stores,
  log: Logger,
): Promise<KeyRing> {
  const keys = new KeyRing({
    db: databases.api,
    log,
    configured: access.configured,
    loopbackOnly: isLoopback(config.host),
    sessions: config.sessions,
    nowMs: () => row.clock.nowMs(),
  })
  await keys.start()
  access.use(keys)
  return keys
}

/** Creates the server's modules. Modules for pages use the pages' connection pool. */
export function createModules(
  config: Config,
  version: string,
  functionIsolation: AboutDto['functionIsolation'],
  keys: KeyRing,
  { manager, models, servers, playground }: Scoring,
  { database, databases, row, turns }: Stores,
  log: Logger,
) {
  const { api: db, pages: pagesDb } = databases
  const batches = new BatchViews(pagesDb, manager.readerOn(pagesDb), new RateMeter())
  const fleet = new FleetView(pagesDb, row.id, () => servers.stats())
  const runTable = new RunTable(pagesDb)
  return {
    manager,
    reader: manager.reader,
    batches,
    timelines: new TimelineView(pagesDb, manager.readerOn(pagesDb)),
    samples: new SampleViews(pagesDb),
    annotations: new Annotations(pagesDb),
    savedViews: new SavedViews(pagesDb),
    runs: new RunView(pagesDb),
    runTable,
    runConfigs: new RunConfigs(db),
    changes: new ChangesView(pagesDb),
    history: new FleetHistory(pagesDb, row.clock),
    marks: new RunMarks(pagesDb),
    comparedBatches: new CompareView(pagesDb),
    comparedRuns: new CompareRunsView(pagesDb),
    prompts: new PromptsView(pagesDb),
    planner: new PlannerView(pagesDb),
    overview: new OverviewView(pagesDb, fleet, batches, runTable, config.workers),
    fleet,
    servers: new ServerView(pagesDb, fleet, row.clock),
    models,
    rewards: new RewardsView(fleet, new FunctionsFolder(config.functionsDir)),
    components: new ComponentsView(pagesDb),
    playground,
    monitors: new MonitorsView(pagesDb),
    webhooks: new Webhooks(pagesDb, config.basePath),
    keys,
    scopes: new Scopes(db),
    limits: new LimitSettings(db),
    retention: new Retention(databases.background, log, () => turns.has('retention')),
    audit: new AuditLog(db, pagesDb, log),
    about: new AboutService(pagesDb, {
      version,
      embedded: database.embedded !== null,
      dataDir: config.dataDir,
      startedAt: new Date(),
      settings: config.settings,
      functionIsolation,
    }),
    live: new LiveHub(),
    readiness: new Readiness({
      db: databases.control,
      write: () => row.report({ servers: servers.stats() }),
      log,
    }),
  } satisfies Modules
}

export type ServerModules = ReturnType<typeof createModules>
