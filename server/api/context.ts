import type { Webhooks } from '../loop/alerts/webhooks.ts'
import type { Annotations } from '../loop/annotations.ts'
import type { BatchReader } from '../loop/batch-reader.ts'
import type { LiveHub } from '../loop/live-hub.ts'
import type { RewardModelManager } from '../loop/models/reward-model-manager.ts'
import type { MonitorsView } from '../loop/monitors/monitors-view.ts'
import type { Playground } from '../loop/playground.ts'
import type { Readiness } from '../loop/readiness.ts'
import type { RewardLoopManager } from '../loop/reward-loop-manager.ts'
import type { RunMarks } from '../loop/run-marks.ts'
import type { SavedViews } from '../loop/saved-views.ts'
import type { AboutService } from '../loop/settings/about.ts'
import type { AuditLog } from '../loop/settings/audit-log.ts'
import type { KeyRing } from '../loop/settings/key-ring.ts'
import type { Retention } from '../loop/settings/retention.ts'
import type { LimitSettings } from '../loop/settings/run-limits.ts'
import type { BatchViews } from '../loop/views/batch-view.ts'
import type { CompareRunsView } from '../loop/views/compare-runs.ts'
import type { CompareView } from '../loop/views/compare-view.ts'
import type { ComponentsView } from '../loop/views/components-view.ts'
import type { FleetView } from '../loop/views/fleet-view.ts'
import type { OverviewView } from '../loop/views/overview-view.ts'
import type { PlannerView } from '../loop/views/planner-view.ts'
import type { RewardsView } from '../loop/views/rewards-view.ts'
import type { RunView } from '../loop/views/run-view.ts'
import type { SampleViews } from '../loop/views/sample-view.ts'
import type { ServerView } from '../loop/views/server-view.ts'
import type { TimelineView } from '../loop/views/timeline-view.ts'
import type { SessionDto } from '../contract/pages.ts'
import type { Actor } from '../contract/roles.ts'

/**
 * The modules that procedures call, as `ctx.<module>.<method>(input)`. Their methods throw RewardOpsError for mistakes of the
 * caller; `refusals` in trpc.ts translates errors of the database.
 */
export interface Modules {
  /** Accepts, scores, closes and cancels batches. */
  manager: RewardLoopManager
  /** Delivers groups and results to trainers. */
  reader: BatchReader
  batches: BatchViews
  timelines: TimelineView
  samples: SampleViews
  annotations: Annotations
  savedViews: SavedViews
  runs: RunView
  marks: RunMarks
  comparedBatches: CompareView
  comparedRuns: CompareRunsView
  planner: PlannerView
  overview: OverviewView
  /** Workers, servers and pools, as lists. */
  fleet: FleetView
  servers: ServerView
  /** Registers, launches and changes reward-model servers. */
  models: RewardModelManager
  rewards: RewardsView
  components: ComponentsView
  playground: Playground
  monitors: MonitorsView
  webhooks: Webhooks
  keys: KeyRing
  limits: LimitSettings
  retention: Retention
  audit: AuditLog
  about: AboutService
  live: LiveHub
  readiness: Pick<Readiness, 'suspect'>
}

/** What a request carries: the caller, and the modules behind the procedures. */
export interface RequestContext extends Modules {
  requestId: string
  session: SessionDto
  /** Null: the caller has not signed in; `signedIn` in trpc.ts refuses the call where a key is needed. */
  actor: Actor | null
  /** Aborted when the key that the request came with is revoked or has ended; its reason is the refusal that says so. */
  keyEnded: AbortSignal
  /** Sets or clears the login cookie; null clears. */
  setSessionKey(key: string | null): boolean
}
