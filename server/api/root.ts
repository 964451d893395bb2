import { z } from 'zod'
import { demoBatch } from '../batches/demo-batch.ts'
import {
  BatchGroupsInput,
  BatchViewInput,
  SampleFacetsInput,
  SampleListInput,
} from '../contract/pages.ts'
import { UpdatePoolInput } from '../contract/pools.ts'
import { RescoreSomeInput } from '../contract/rescore.ts'
import { ComponentsInput, ImportConfigInput, TryInput } from '../contract/rewards.ts'
import { RunInput } from '../contract/runs.ts'
import {
  LaunchServerInput,
  RegisterServerInput,
  ServerLogInput,
  ServerRef,
  SleepServerInput,
  UpdateServerInput,
  WakeServerInput,
} from '../contract/servers.ts'
import { TimelineInput } from '../contract/timeline.ts'
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
} from '../contract/trainer.ts'
import { RewardOpsError } from '../errors.ts'
import { importOffLoop } from '../rewards/config/import-off-loop.ts'
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
    submit: procedure.input(SubmitInput).mutation(({ ctx, input }) => ctx.manager.submit(input)),
    append: procedure.input(AppendInput).mutation(({ ctx, input }) => ctx.manager.append(input)),
    rescore: procedure
      .input(RescoreSomeInput)
      .mutation(({ ctx, input }) => ctx.manager.rescore(input)),
    close: procedure
      .input(byBatchId)
      .mutation(({ ctx, input }) => ctx.manager.close(input.batchId)),
    cancel: procedure
      .input(byBatchId)
      .mutation(({ ctx, input }) => ctx.manager.cancel(input.batchId)),
    next: lastingProcedure
      .input(NextInput)
      .query(({ ctx, input }) => ctx.reader.next(input, ctx.until)),
    wait: lastingProcedure
      .input(WaitInput)
      .query(({ ctx, input }) => ctx.reader.wait(input.batchId, input.waitMs, ctx.until)),
    results: procedure.input(ResultsInput).query(({ ctx, input }) => {
      if (input.tokenScores) {
        throw new RewardOpsError(
          'unsupported_setting',
          'tokenScores: no engine of this version gives them',
        )
      }
      return ctx.reader.results(input)
    }),
    get: procedure.input(byBatchId).query(({ ctx, input }) => ctx.reader.summary(input.batchId)),
    list: procedure
      .input(BatchListInput.prefault({}))
      .query(({ ctx, input }) => ctx.batches.list(input)),
    view: procedure
      .input(BatchViewInput)
      .query(({ ctx, input }) => ctx.batches.view(input.batchId)),
    groups: procedure.input(BatchGroupsInput).query(({ ctx, input }) => ctx.batches.groups(input)),
    timeline: procedure.input(TimelineInput).query(({ ctx, input }) => ctx.timelines.part(input)),
  }),
  samples: router({
    ...samplesPageProcedures,
    score: lastingProcedure
      .input(ScoreInput)
      .mutation(({ ctx, input }) => ctx.manager.score(input, ctx.until)),
    facets: procedure.input(SampleFacetsInput).query(({ ctx, input }) => ctx.samples.facets(input)),
    list: procedure
      .input(SampleListInput.prefault({}))
      .query(({ ctx, input }) => ctx.samples.list(input)),
    get: procedure
      .input(z.strictObject({ id: SampleId }))
      .query(({ ctx, input }) => ctx.samples.detail(input.id)),
  }),
  servers: router({
    list: procedure.input(nothing).query(({ ctx }) => ctx.fleet.servers()),
    get: procedure.input(ServerRef).query(({ ctx, input }) => ctx.servers.get(input)),
    monitors: procedure.input(nothing).query(({ ctx }) => ctx.servers.monitors()),
    log: procedure
      .input(ServerLogInput)
      .query(({ ctx, input }) => ctx.models.log(input, input.lines)),
    launch: procedure
      .input(LaunchServerInput)
      .mutation(async ({ ctx, input }) => ctx.fleet.describe(await ctx.models.launch(input))),
    register: procedure
      .input(RegisterServerInput)
      .mutation(async ({ ctx, input }) => ctx.fleet.describe(await ctx.models.register(input))),
    update: procedure.input(UpdateServerInput).mutation(async ({ ctx, input }) => {
      const { id, name, ...changes } = input
      return ctx.fleet.describe(await ctx.models.update({ id, name }, changes))
    }),
    drain: procedure
      .input(ServerRef)
      .mutation(async ({ ctx, input }) => ctx.fleet.describe(await ctx.models.drain(input))),
    resume: procedure
      .input(ServerRef)
      .mutation(async ({ ctx, input }) => ctx.fleet.describe(await ctx.models.resume(input))),
    sleep: procedure
      .input(SleepServerInput)
      .mutation(async ({ ctx, input }) =>
        ctx.fleet.describe(await ctx.models.sleep(input, input.level)),
      ),
    wake: procedure
      .input(WakeServerInput)
      .mutation(async ({ ctx, input }) =>
        ctx.fleet.describe(await ctx.models.wake(input, input.awakeForMs)),
      ),
    probe: procedure
      .input(ServerRef)
      .mutation(async ({ ctx, input }) => ctx.fleet.describe(await ctx.models.probe(input))),
    remove: procedure
      .input(ServerRef)
      .mutation(async ({ ctx, input }) => ctx.fleet.describe(await ctx.models.remove(input))),
  }),
  pools: router({
    list: procedure.input(nothing).query(({ ctx }) => ctx.fleet.pools()),
    update: procedure
      .input(UpdatePoolInput)
      .mutation(({ ctx, input }) => ctx.fleet.setPolicy(input)),
  }),
  rewards: router({
    list: procedure.input(nothing).query(({ ctx }) => ctx.rewards.get()),
    try: lastingProcedure
      .input(TryInput)
      .mutation(({ ctx, input }) => ctx.playground.try(input, ctx.until)),
    components: procedure
      .input(ComponentsInput.prefault({}))
      .query(({ ctx, input }) => ctx.components.get(input.run)),
    importConfig: procedure
      .input(ImportConfigInput)
      .mutation(({ ctx, input }) => importOffLoop(input.text, ctx.session.address)),
  }),
  annotations: annotationsRouter,
  views: viewsRouter,
  planner: plannerRouter,
  monitors: monitorsRouter,
  alerts: alertsRouter,
  marks: marksRouter,
  compare: compareRouter,
  runs: router({
    list: procedure.input(nothing).query(({ ctx }) => ctx.runs.list()),
    get: procedure.input(RunInput).query(({ ctx, input }) => ctx.runs.get(input)),
  }),
  workers: router({
    list: procedure.input(nothing).query(({ ctx }) => ctx.fleet.workers()),
  }),
  overview: router({
    get: procedure.input(nothing).query(({ ctx }) => ctx.overview.get()),
    retries: procedure.input(nothing).query(({ ctx }) => ctx.overview.retries()),
  }),
  keys: keysRouter,
  limits: limitsRouter,
  retention: retentionRouter,
  audit: auditRouter,
  about: aboutRouter,
  demo: router({
    load: procedure
      .input(nothing)
      .mutation(async ({ ctx }) => ctx.manager.submit(await demoBatch())),
  }),
  live: router({
    events: procedure.input(nothing).subscription(async function* ({ ctx, signal }) {
      const { keyEnded } = ctx
      yield* ctx.live.subscribe(signal ? AbortSignal.any([signal, keyEnded]) : keyEnded)
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
