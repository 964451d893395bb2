import type { AboutService } from '../admin/about.ts'
import type { AuditLog } from '../admin/audit-log.ts'
import type { KeyHolder } from '../admin/key-holder.ts'
import type { KeyRing } from '../admin/key-ring.ts'
import type { Retention } from '../admin/retention.ts'
import type { RunConfigs } from '../admin/run-configs.ts'
import type { LimitSettings } from '../admin/run-limits.ts'
import type { RunMarks } from '../admin/run-marks.ts'
import type { SavedViews } from '../admin/saved-views.ts'
import type { Readiness } from '../background/readiness.ts'
import type { Annotations } from '../batches/annotations.ts'
import type { BatchReader } from '../batches/batch-reader.ts'
import type { Playground } from '../batches/playground.ts'
import type { RewardLoopManager } from '../batches/reward-loop-manager.ts'
import type { SessionDto } from '../contract/pages.ts'
import type { RewardModelManager } from '../model-servers/reward-model-manager.ts'
import type { Webhooks } from '../monitoring/alerts/webhooks.ts'
import type { MonitorsView } from '../monitoring/monitors-view.ts'
import type { BatchViews } from '../queries/batch-view.ts'
import type { ChangesView } from '../queries/changes-view.ts'
import type { CompareRunsView } from '../queries/compare-runs.ts'
import type { CompareView } from '../queries/compare-view.ts'
import type { ComponentsView } from '../queries/components-view.ts'
import type { FleetHistory } from '../queries/fleet-history.ts'
import type { FleetView } from '../queries/fleet-view.ts'
import type { LiveHub } from '../queries/live-hub.ts'
import type { OverviewView } from '../queries/overview-view.ts'
import type { PlannerView } from '../queries/planner-view.ts'
import type { PromptsView } from '../queries/prompts-view.ts'
import type { RewardsView } from '../queries/rewards-view.ts'
import type { RunTable } from '../queries/run-table.ts'
import type { RunView } from '../queries/run-view.ts'
import type { SampleViews } from '../queries/sample-view.ts'
import type { ServerView } from '../queries/server-view.ts'
import type { TimelineView } from '../queries/timeline-view.ts'
import type { Scopes } from './scopes.ts'

/**
 * The modules that procedures call as `ctx.<module>.<method>(input)`. Their methods throw RewardOpsError to refuse a
 * call; `refusals` in trpc.ts translates errors of the database.
 */
export interface Modules {
  manager: RewardLoopManager
  reader: BatchReader
  batches: BatchViews
  timelines: TimelineView
  samples: SampleViews
  annotations: Annotations
  savedViews: SavedViews
  runs: RunView
  runTable: RunTable
  runConfigs: RunConfigs
  changes: ChangesView
  prompts: PromptsView
  history: FleetHistory
  marks: RunMarks
  comparedBatches: CompareView
  comparedRuns: CompareRunsView
  planner: PlannerView
  overview: OverviewView
  fleet: FleetView
  servers: ServerView
  models: RewardModelManager
  rewards: RewardsView
  components: ComponentsView
  playground: Playground
  monitors: MonitorsView
  webhooks: Webhooks
  keys: KeyRing
  scopes: Scopes
  limits: LimitSettings
  retention: Retention
  audit: AuditLog
  about: AboutService
  live: LiveHub
  readiness: Pick<Readiness, 'suspect'>
}

export interface RequestContext extends Modules {
  requestId: string
  session: SessionDto
  /** Null if a key is required and the request has no valid one. `signedIn` in trpc.ts refuses such calls. */
  actor: KeyHolder | null
  /**
   * Aborts when the key of the request becomes invalid or the login session ends. The abort reason is the error for the
   * caller.
   */
  keyEnded: AbortSignal
  /** Opens a login session and sets its cookie. Returns false for an invalid key. */
  signIn(key: string): Promise<boolean>
  signOut(): Promise<void>
}
