import { z } from 'zod'
import { RewardOpsError } from '../errors.ts'
import {
  BatchGroupsInput,
  BatchViewInput,
  SampleFacetsInput,
  SampleListInput,
} from '../wire/pages.ts'
import { UpdatePoolInput } from '../wire/pools.ts'
import { RescoreSomeInput } from '../wire/rescore.ts'
import { ComponentsInput, ImportConfigInput, TryInput } from '../wire/rewards.ts'
import { RunInput } from '../wire/runs.ts'
import {
  LaunchServerInput,
  RegisterServerInput,
  ServerLogInput,
  ServerRef,
  SleepServerInput,
  UpdateServerInput,
  WakeServerInput,
} from '../wire/servers.ts'
import { TimelineInput } from '../wire/timeline.ts'
import {
  AppendInput,
  BatchId,
  BatchListInput,
  NextInput,
  ResultsInput,
  SampleId,
  ScoreInput,
  SubmitInput,
  WaitInput,
} from '../wire/trainer.ts'
import { alertsRouter } from './alerts.ts'
import { compareRouter } from './compare.ts'
import { marksRouter } from './marks.ts'
import { monitorsRouter } from './monitors.ts'
import { plannerRouter } from './planner.ts'
import { annotationsRouter, samplesPageProcedures, viewsRouter } from './samples-page.ts'
import { aboutRouter, auditRouter, keysRouter, limitsRouter, retentionRouter } from './settings.ts'
import { lastingProcedure, openProcedure, procedure, router } from './trpc.ts'

const byBatchId = z.strictObject({ batchId: BatchId })
const nothing = z.strictObject({}).optional()

/** The trainers' plane and the pages' queries: input, one call, its answer. */
export const appRouter = router({
  batches: router({
    submit: procedure.input(SubmitInput).mutation(({ ctx, input }) => ctx.services.submit(input)),
    append: procedure.input(AppendInput).mutation(({ ctx, input }) => ctx.services.append(input)),
    rescore: procedure
      .input(RescoreSomeInput)
      .mutation(({ ctx, input }) => ctx.services.rescore(input)),
    close: procedure
      .input(byBatchId)
      .mutation(({ ctx, input }) => ctx.services.close(input.batchId)),
    cancel: procedure
      .input(byBatchId)
      .mutation(({ ctx, input }) => ctx.services.cancel(input.batchId)),
    next: lastingProcedure
      .input(NextInput)
      .query(({ ctx, input }) => ctx.services.next(input, ctx.until)),
    wait: lastingProcedure
      .input(WaitInput)
      .query(({ ctx, input }) => ctx.services.wait(input.batchId, input.waitMs, ctx.until)),
    results: procedure.input(ResultsInput).query(({ ctx, input }) => {
      if (input.tokenScores) {
        throw new RewardOpsError(
          'unsupported_setting',
          'tokenScores: no engine of this version gives them',
        )
      }
      return ctx.services.results(input)
    }),
    get: procedure.input(byBatchId).query(({ ctx, input }) => ctx.services.getBatch(input.batchId)),
    list: procedure
      .input(BatchListInput.prefault({}))
      .query(({ ctx, input }) => ctx.services.listBatches(input)),
    view: procedure
      .input(BatchViewInput)
      .query(({ ctx, input }) => ctx.services.viewBatch(input.batchId)),
    groups: procedure
      .input(BatchGroupsInput)
      .query(({ ctx, input }) => ctx.services.listGroups(input)),
    timeline: procedure
      .input(TimelineInput)
      .query(({ ctx, input }) => ctx.services.timeline(input)),
  }),
  samples: router({
    ...samplesPageProcedures,
    score: lastingProcedure
      .input(ScoreInput)
      .mutation(({ ctx, input }) => ctx.services.score(input, ctx.until)),
    facets: procedure
      .input(SampleFacetsInput)
      .query(({ ctx, input }) => ctx.services.sampleFacets(input)),
    list: procedure
      .input(SampleListInput.prefault({}))
      .query(({ ctx, input }) => ctx.services.listSamples(input)),
    get: procedure
      .input(z.strictObject({ id: SampleId }))
      .query(({ ctx, input }) => ctx.services.getSample(input.id)),
  }),
  servers: router({
    list: procedure.input(nothing).query(({ ctx }) => ctx.services.listServers()),
    get: procedure.input(ServerRef).query(({ ctx, input }) => ctx.services.getServer(input)),
    monitors: procedure.input(nothing).query(({ ctx }) => ctx.services.serverMonitors()),
    log: procedure
      .input(ServerLogInput)
      .query(({ ctx, input }) => ctx.services.serverLog(input, input.lines)),
    launch: procedure
      .input(LaunchServerInput)
      .mutation(({ ctx, input }) => ctx.services.launchServer(input)),
    register: procedure
      .input(RegisterServerInput)
      .mutation(({ ctx, input }) => ctx.services.registerServer(input)),
    update: procedure.input(UpdateServerInput).mutation(({ ctx, input }) => {
      const { id, name, ...changes } = input
      return ctx.services.updateServer({ id, name }, changes)
    }),
    drain: procedure.input(ServerRef).mutation(({ ctx, input }) => ctx.services.drainServer(input)),
    resume: procedure
      .input(ServerRef)
      .mutation(({ ctx, input }) => ctx.services.resumeServer(input)),
    sleep: procedure
      .input(SleepServerInput)
      .mutation(({ ctx, input }) => ctx.services.sleepServer(input, input.level)),
    wake: procedure
      .input(WakeServerInput)
      .mutation(({ ctx, input }) => ctx.services.wakeServer(input, input.awakeForMs)),
    probe: procedure.input(ServerRef).mutation(({ ctx, input }) => ctx.services.probeServer(input)),
    remove: procedure
      .input(ServerRef)
      .mutation(({ ctx, input }) => ctx.services.removeServer(input)),
  }),
  pools: router({
    list: procedure.input(nothing).query(({ ctx }) => ctx.services.listPools()),
    update: procedure
      .input(UpdatePoolInput)
      .mutation(({ ctx, input }) => ctx.services.updatePool(input)),
  }),
  rewards: router({
    list: procedure.input(nothing).query(({ ctx }) => ctx.services.listRewards()),
    try: lastingProcedure
      .input(TryInput)
      .mutation(({ ctx, input }) => ctx.services.tryReward(input, ctx.until)),
    components: procedure
      .input(ComponentsInput.prefault({}))
      .query(({ ctx, input }) => ctx.services.rewardComponents(input.run)),
    importConfig: procedure
      .input(ImportConfigInput)
      .mutation(({ ctx, input }) => ctx.services.importConfig(input.text, ctx.session.address)),
  }),
  annotations: annotationsRouter,
  views: viewsRouter,
  planner: plannerRouter,
  monitors: monitorsRouter,
  alerts: alertsRouter,
  marks: marksRouter,
  compare: compareRouter,
  runs: router({
    list: procedure.input(nothing).query(({ ctx }) => ctx.services.listRuns()),
    get: procedure.input(RunInput).query(({ ctx, input }) => ctx.services.getRun(input)),
  }),
  workers: router({
    list: procedure.input(nothing).query(({ ctx }) => ctx.services.listWorkers()),
  }),
  overview: router({
    get: procedure.input(nothing).query(({ ctx }) => ctx.services.overview()),
    retries: procedure.input(nothing).query(({ ctx }) => ctx.services.retriesPerMinute()),
  }),
  keys: keysRouter,
  limits: limitsRouter,
  retention: retentionRouter,
  audit: auditRouter,
  about: aboutRouter,
  demo: router({
    load: procedure.input(nothing).mutation(({ ctx }) => ctx.services.loadDemo()),
  }),
  live: router({
    events: procedure.input(nothing).subscription(async function* ({ ctx, signal }) {
      const { keyEnded } = ctx
      yield* ctx.services.live(signal ? AbortSignal.any([signal, keyEnded]) : keyEnded)
    }),
  }),
  session: router({
    get: openProcedure.input(nothing).query(({ ctx }) => ctx.session),
    signIn: openProcedure
      .input(z.strictObject({ key: z.string().min(1).max(4096) }))
      .mutation(({ ctx, input }) => {
        if (!ctx.setSessionKey(input.key)) {
          throw new RewardOpsError('unauthorized', 'That key is not one of this service’s keys.', {
            hint: 'Ask an admin of the service for one: it was mistyped, revoked, or has ended.',
          })
        }
        return { signedIn: true }
      }),
    signOut: openProcedure.input(nothing).mutation(({ ctx }) => {
      ctx.setSessionKey(null)
      return { signedIn: false }
    }),
  }),
})

/** The type that TypeScript clients and the pages are written against. */
export type AppRouter = typeof appRouter
