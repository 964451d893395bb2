import { createReadStream, existsSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import type { Services } from './api/services.ts'
import type { SettingsServices } from './api/settings.ts'
import { isRewardOpsError, RewardOpsError } from './errors.ts'
import type { Webhooks } from './loop/alerts/webhooks.ts'
import { Annotations } from './loop/annotations.ts'
import type { LiveHub } from './loop/live-hub.ts'
import type { RewardModelManager, ServerChanges } from './loop/models/reward-model-manager.ts'
import type { MonitorsView } from './loop/monitors/monitors-view.ts'
import type { Playground } from './loop/playground.ts'
import type { RewardLoopManager } from './loop/reward-loop-manager.ts'
import type { RunMarks } from './loop/run-marks.ts'
import { SavedViews } from './loop/saved-views.ts'
import type { AboutService } from './loop/settings/about.ts'
import type { AuditLog } from './loop/settings/audit-log.ts'
import type { KeyRing } from './loop/settings/key-ring.ts'
import type { Retention } from './loop/settings/retention.ts'
import type { LimitSettings } from './loop/settings/run-limits.ts'
import type { BatchViews } from './loop/views/batch-view.ts'
import { CompareRunsView } from './loop/views/compare-runs.ts'
import { CompareView } from './loop/views/compare-view.ts'
import type { ComponentsView } from './loop/views/components-view.ts'
import type { FleetView } from './loop/views/fleet-view.ts'
import type { OverviewView } from './loop/views/overview-view.ts'
import { PlannerView } from './loop/views/planner-view.ts'
import type { RewardsView } from './loop/views/rewards-view.ts'
import type { RunView } from './loop/views/run-view.ts'
import type { SampleViews } from './loop/views/sample-view.ts'
import type { ServerView } from './loop/views/server-view.ts'
import type { TimelineView } from './loop/views/timeline-view.ts'
import { importOffLoop } from './rewards/config/import-off-loop.ts'
import { DEFAULT_POLICY } from './router/policies/registry.ts'
import { type Database, isOutage, isTooManyConnections } from './store/database.ts'
import { runRows } from './store/sql/fleet.ts'
import { type PoolRow, poolRows, setPoolPolicy } from './store/sql/pools.ts'
import { activeServers, type ServerRow } from './store/sql/servers.ts'
import type { PoolDto } from './wire/pools.ts'
import { SubmitInput } from './wire/trainer.ts'

/** A lost database and a stopped query as what the caller is told; everything else as it is. */
export function translateError(error: unknown): unknown {
  if (isRewardOpsError(error)) return error
  if (isOutage(error)) {
    return new RewardOpsError('database_unavailable', outageMessage(error), {
      retryAfterMs: 1_000,
      cause: error,
    })
  }
  if ((error as { code?: string } | null)?.code === '57014') {
    return new RewardOpsError('query_timeout', 'The query was stopped after its time.', {
      cause: error,
    })
  }
  return error
}

/** What a caller is told of an outage: the database itself may answer, and take nothing. */
function outageMessage(error: unknown): string {
  const { code } = error as { code?: string }
  if (code === '25006') return 'The database is read-only at present.'
  if (code === '53100') return 'The disk of the database is full.'
  if (isTooManyConnections(error)) return 'The database has no free connection.'
  return 'The database is not answering.'
}

/** What the procedures call, put together from the loop's parts. */
export function createServices(parts: {
  db: Database
  manager: RewardLoopManager
  models: RewardModelManager
  batches: BatchViews
  runs: RunView
  timelines: TimelineView
  samples: SampleViews
  fleet: FleetView
  servers: ServerView
  overview: OverviewView
  rewards: RewardsView
  components: ComponentsView
  playground: Playground
  monitors: MonitorsView
  webhooks: Webhooks
  marks: RunMarks
  live: LiveHub
  settings: SettingsServices
}): Services {
  const {
    db,
    manager,
    models,
    batches,
    runs,
    timelines,
    samples,
    fleet,
    servers,
    overview,
    rewards,
    components,
    playground,
    monitors,
    webhooks,
    marks,
    live,
  } = parts
  const planner = new PlannerView(db)
  const annotations = new Annotations(db)
  const views = new SavedViews(db)
  const comparisons = new CompareView(db)
  const comparedRuns = new CompareRunsView(db)
  const asDto = async (row: ServerRow) => {
    // Shares are of the whole pool: described among all, then picked.
    const all = await fleet.describe(await activeServers(db))
    return all.find((s) => s.id === `s${row.id}`) ?? (await fleet.describe([row]))[0]!
  }
  const services: Services = {
    ...parts.settings,
    submit: (input) => manager.submit(input),
    append: (input) => manager.append(input),
    rescore: (input) => manager.rescore(input),
    close: (batchId) => manager.close(batchId),
    cancel: (batchId) => manager.cancel(batchId),
    next: (input, signal) => manager.reader.next(input, signal),
    wait: (batchId, waitMs, signal) => manager.reader.wait(batchId, waitMs, signal),
    results: (input) => manager.reader.results(input),
    getBatch: (batchId) => manager.reader.summary(batchId),
    listBatches: (input) => batches.list(input),
    viewBatch: (batchId) => batches.view(batchId),
    listGroups: (input) => batches.groups(input),
    timeline: (input) => timelines.part(input),
    score: (input, signal) => manager.score(input, signal),
    listSamples: (input) => samples.list(input),
    sampleFacets: (input) => samples.facets(input),
    getSample: (id) => samples.detail(id),
    extraKeys: (input) => samples.extraKeys(input),
    countSamples: (filter) => samples.count(filter),
    samplesByBatch: (filter) => samples.byBatch(filter),
    addAnnotations: (input, actor) => annotations.add(input, actor),
    updateAnnotation: (input, actor) => annotations.update(input, actor),
    removeAnnotation: (id, actor) => annotations.remove(id, actor),
    annotationsOf: (sample) => annotations.of(sample),
    annotationLabels: (input) => annotations.labels(input),
    listViews: (page) => views.list(page),
    getView: (id) => views.get(id),
    saveView: (input, actor) => views.save(input, actor),
    updateView: (input, actor) => views.update(input, actor),
    removeView: (id, actor) => views.remove(id, actor),
    async listRuns() {
      return (await runRows(db)).map((row) => ({
        name: row.name,
        batches: row.batches,
        validationBatches: row.validation_batches,
        rescoredBatches: row.rescored_batches,
        lastStep: row.last_step,
        lastSubmittedAt: row.last_at.toISOString(),
        seeded: row.seeded,
      }))
    },
    plan: (input, signal) => planner.plan(input, signal),
    comparePair: (input) => comparisons.pair(input),
    comparedSamples: (input) => comparisons.samples(input),
    comparedGroups: (input) => comparisons.groups(input),
    compareCandidates: (input) => comparisons.candidates(input),
    compareRuns: (input) => comparedRuns.get(input),
    getRun: (input) => runs.get(input),
    overview: () => overview.get(),
    retriesPerMinute: () => overview.retries(),
    listWorkers: () => fleet.workers(),
    listServers: () => fleet.servers(),
    getServer: (ref) => servers.get(ref),
    serverMonitors: () => servers.monitors(),
    serverLog: (ref, lines) => models.log(ref, lines),
    launchServer: async (input) => asDto(await models.launch(input)),
    sleepServer: async (ref, level) => asDto(await models.sleep(ref, level)),
    wakeServer: async (ref, awakeForMs) => asDto(await models.wake(ref, awakeForMs)),
    registerServer: async (input) => asDto(await models.register(input)),
    updateServer: async (ref, changes) => asDto(await models.update(ref, changes as ServerChanges)),
    drainServer: async (ref) => asDto(await models.drain(ref)),
    resumeServer: async (ref) => asDto(await models.resume(ref)),
    probeServer: async (ref) => asDto(await models.probe(ref)),
    removeServer: async (ref) => asDto(await models.remove(ref)),
    listPools: async () => (await poolRows(db)).map(toPool),
    async updatePool({ model, policy }) {
      if (!(await setPoolPolicy(db, model, policy))) {
        throw new RewardOpsError('unknown_model', `No server of "${model}" was ever registered.`)
      }
      const pool = (await poolRows(db)).find((row) => row.model === model)
      return toPool(pool ?? { model, policy, servers: 0, ready: 0, jobs_waiting: 0 })
    },
    listRewards: () => rewards.get(),
    rewardComponents: (run) => components.get(run),
    tryReward: (input, signal) => playground.try(input, signal),
    importConfig: (text, address) => importOffLoop(text, address),
    loadDemo: async () => manager.submit(await demoBatch()),
    listMonitors: () => monitors.list(),
    runMonitors: (input) => monitors.run(input),
    monitorHistory: (input) => monitors.history(input),
    monitorSettings: (input) => monitors.settings(input),
    configureMonitor: (input, by) => monitors.configure(input, by),
    listWebhooks: () => webhooks.list(),
    createWebhook: (input, by) => webhooks.create(input, by),
    updateWebhook: (input) => webhooks.update(input),
    removeWebhook: (id) => webhooks.remove(id),
    testWebhook: (id) => webhooks.test(id),
    listDeliveries: (input) => webhooks.deliveries(input),
    listMarks: (run) => marks.list(run),
    createMark: (input, author) => marks.create(input, author),
    updateMark: (input) => marks.update(input),
    removeMark: (id) => marks.remove(id),
    live: (signal) => live.subscribe(signal),
  }
  return guarded(services)
}

function toPool(row: PoolRow): PoolDto {
  return {
    model: row.model,
    policy: row.policy ?? DEFAULT_POLICY,
    policyGiven: row.policy !== null,
    servers: row.servers,
    ready: row.ready,
    jobsWaiting: row.jobs_waiting,
  }
}

/** What the Settings page calls, put together from its parts. */
export function createSettingsServices(parts: {
  access: { readonly needsKey: boolean; readonly configuredNames: string[] }
  loopbackOnly: boolean
  keys: KeyRing
  limits: LimitSettings
  retention: Retention
  audit: AuditLog
  about: AboutService
}): SettingsServices {
  const { access, keys, limits, retention, audit, about } = parts
  const listKeys = async () => ({
    needsKey: access.needsKey,
    configured: access.configuredNames.map((name) => ({ name })),
    loopbackOnly: parts.loopbackOnly,
    ...(await keys.list()),
  })
  return {
    listKeys,
    getKey: (id) => keys.get(id),
    createKey: (input, by) => keys.create(input, by),
    renameKey: (id, name) => keys.rename(id, name),
    revokeKey: (id, by) => keys.revoke(id, by),
    async requireKeys(input, by) {
      await keys.require(input, by)
      return listKeys()
    },
    getLimits: () => limits.get(),
    setLimits: (input, by) => limits.set(input, by),
    clearLimits: (run) => limits.clear(run),
    getRetention: () => retention.get(),
    setRetention: (policy, by) => retention.set(policy, by),
    previewRetention: (input) => retention.preview(input),
    applyRetention: (by) => retention.apply(by),
    keepRun: (run, keep, by) => retention.keepRun(run, keep, by),
    deleteRun: (run, confirm, by) => retention.deleteRun(run, confirm, by),
    cancelRemoval: (id) => retention.cancel(id),
    listAudit: (input) => audit.list(input),
    noteChange: (entry) => audit.note(entry),
    about: () => about.get(),
  }
}

/** Every method's failure translated, in one place. */
function guarded(services: Services): Services {
  const out: Record<string, unknown> = {}
  for (const [name, method] of Object.entries(services) as [
    string,
    (...args: unknown[]) => unknown,
  ][]) {
    out[name] =
      name === 'live'
        ? method
        : async (...args: unknown[]) => {
            try {
              return await method(...args)
            } catch (error) {
              throw translateError(error)
            }
          }
  }
  return out as unknown as Services
}

/** The bundled rollouts as one batch, scored by rule: what the empty service offers to begin with. */
async function demoBatch(): Promise<SubmitInput> {
  const file = fileURLToPath(new URL('../examples/data/demo-rollouts.jsonl', import.meta.url))
  if (!existsSync(file)) {
    throw new RewardOpsError('not_found', 'The bundled rollouts are not part of this installation.')
  }
  const samples: unknown[] = []
  for await (const line of createInterface({ input: createReadStream(file) })) {
    if (line.trim()) samples.push(JSON.parse(line))
  }
  return SubmitInput.parse({ run: 'demo', step: 1, groupSize: null, samples })
}
