import type {
  BatchGroupDto,
  BatchProgressDto,
  BatchViewDto,
  LiveEvent,
  OverviewDto,
  RetryMinuteDto,
  SampleDetailDto,
  SampleFacetsDto,
  SampleFacetsInput,
  SampleListInput,
  SamplePageDto,
  SessionDto,
  WorkerDto,
} from '../wire/pages.ts'
import type { PlannerDto, PlannerInput } from '../wire/planner.ts'
import type { BalancingPolicyName, PoolDto } from '../wire/pools.ts'
import type { RescoreResult, RescoreSomeInput } from '../wire/rescore.ts'
import type {
  ComponentsDto,
  ImportedConfigDto,
  RewardsDto,
  TriedDto,
  TryInput,
} from '../wire/rewards.ts'
import type { Actor } from '../wire/roles.ts'
import type { RunDto, RunInput, RunRowDto } from '../wire/runs.ts'
import type { ServerDetailDto, ServerLogDto, ServerMonitorDto } from '../wire/server-detail.ts'
import type { LaunchServerInput, RegisterServerInput, ServerDto } from '../wire/servers.ts'
import type { TimelineDto, TimelineInput } from '../wire/timeline.ts'
import type {
  AppendInput,
  AppendResult,
  BatchSummary,
  NextResult,
  Page,
  ResultsColumns,
  ScoreInput,
  ScoreResult,
  SubmitInput,
  SubmitResult,
} from '../wire/trainer.ts'
import type { AlertServices } from './alerts.ts'
import type { CompareServices } from './compare.ts'
import type { MarkServices } from './marks.ts'
import type { MonitorServices } from './monitors.ts'
import type { SamplesPageServices } from './samples-page.ts'
import type { SettingsServices } from './settings.ts'

/**
 * What the procedures call. The loop implements it; the API layer holds no logic and no SQL.
 * Every method throws RewardOpsError for what the caller did wrong.
 */
export interface Services
  extends MonitorServices,
    AlertServices,
    MarkServices,
    CompareServices,
    SamplesPageServices,
    SettingsServices {
  submit(input: SubmitInput): Promise<SubmitResult>
  append(input: AppendInput): Promise<AppendResult>
  /** A batch of the same rollouts, scored by another reward. */
  rescore(input: RescoreSomeInput): Promise<RescoreResult>
  close(batchId: string): Promise<BatchSummary>
  cancel(batchId: string): Promise<BatchSummary>
  next(
    input: { batchId: string; after: string | null; samples: number; waitMs: number },
    signal?: AbortSignal,
  ): Promise<NextResult>
  wait(batchId: string, waitMs: number, signal?: AbortSignal): Promise<BatchSummary>
  results(input: { batchId: string; offset: number; limit: number }): Promise<ResultsColumns>
  getBatch(batchId: string): Promise<BatchSummary>
  listBatches(input: {
    run?: string | undefined
    status?: string | undefined
    split?: string | undefined
    rescored?: boolean | undefined
    cursor?: string | null | undefined
    limit: number
  }): Promise<Page<BatchProgressDto>>
  viewBatch(batchId: string): Promise<BatchViewDto>
  listGroups(input: {
    batchId: string
    after: number
    limit: number
    order: 'completion' | 'latest'
  }): Promise<Page<BatchGroupDto>>
  /** When the groups of a batch came to be, or what of it changed since a cursor. */
  timeline(input: TimelineInput): Promise<TimelineDto>
  score(input: ScoreInput, signal?: AbortSignal): Promise<ScoreResult>
  listSamples(input: SampleListInput): Promise<SamplePageDto>
  sampleFacets(input: SampleFacetsInput): Promise<SampleFacetsDto>
  getSample(id: string): Promise<SampleDetailDto>
  plan(input: PlannerInput, signal?: AbortSignal): Promise<PlannerDto>
  listRuns(): Promise<RunRowDto[]>
  getRun(input: RunInput): Promise<RunDto>
  overview(): Promise<OverviewDto>
  retriesPerMinute(): Promise<RetryMinuteDto[]>
  listWorkers(): Promise<WorkerDto[]>
  listServers(): Promise<ServerDto[]>
  getServer(ref: ServerRefInput): Promise<ServerDetailDto>
  serverMonitors(): Promise<ServerMonitorDto[]>
  serverLog(ref: ServerRefInput, lines: number): Promise<ServerLogDto>
  launchServer(input: LaunchServerInput): Promise<ServerDto>
  sleepServer(ref: ServerRefInput, level: 1 | 2): Promise<ServerDto>
  wakeServer(ref: ServerRefInput, awakeForMs: number): Promise<ServerDto>
  registerServer(input: RegisterServerInput): Promise<ServerDto>
  updateServer(ref: ServerRefInput, changes: Record<string, unknown>): Promise<ServerDto>
  drainServer(ref: ServerRefInput): Promise<ServerDto>
  resumeServer(ref: ServerRefInput): Promise<ServerDto>
  probeServer(ref: ServerRefInput): Promise<ServerDto>
  removeServer(ref: ServerRefInput): Promise<ServerDto>
  listPools(): Promise<PoolDto[]>
  updatePool(input: { model: string; policy: BalancingPolicyName | null }): Promise<PoolDto>
  listRewards(): Promise<RewardsDto>
  /** Scores one sample by hand; nothing of it is stored. */
  tryReward(input: TryInput, signal?: AbortSignal): Promise<TriedDto>
  /** Of the run that is named, else of the newest that has any. */
  rewardComponents(run: string | undefined): Promise<ComponentsDto>
  /** Translates upstream's configuration; a text that is none is a problem of the answer, not an error. `address`: the caller's own way here. */
  importConfig(text: string, address: string): Promise<ImportedConfigDto>
  /** Submits the bundled rollouts as a first batch, scored by rule. */
  loadDemo(): Promise<SubmitResult>
  live(signal: AbortSignal | undefined): AsyncIterable<LiveEvent>
}

/** A server by id or by name. */
export interface ServerRefInput {
  id?: string | undefined
  name?: string | undefined
}

/** What a request carries: who asks, and the services behind the procedures. */
export interface RequestContext {
  services: Services
  requestId: string
  session: SessionDto
  /** Null: somebody who has not signed in; procedures that need a key refuse them before they look at it. */
  actor: Actor | null
  /** Aborted when the key that the request came with is revoked or has ended; its reason is the refusal that says so. */
  keyEnded: AbortSignal
  /** Sets or clears the login cookie; null clears. */
  setSessionKey(key: string | null): boolean
}
