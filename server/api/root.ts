import { z } from 'zod'
import { demoBatch } from '../batches/demo-batch.ts'
import { ChangesInput } from '../contract/changes.ts'
import { FleetHistoryInput } from '../contract/fleet-history.ts'
import {
  BatchGroupsInput,
  BatchViewInput,
  SampleDetailInput,
  SampleFacetsInput,
  SampleListInput,
} from '../contract/pages.ts'
import { RescoreSomeInput } from '../contract/rescore.ts'
import { ComponentsInput, ImportConfigInput, TryInput } from '../contract/rewards.ts'
import { RunConfigInput, UpdateRunInput } from '../contract/run-config.ts'
import { RunTableInput } from '../contract/run-table.ts'
import { RunInput } from '../contract/runs.ts'
import { TimelineInput } from '../contract/timeline.ts'
import {
  AppendInput,
  BatchId,
  BatchListInput,
  NextInput,
  ResultsInput,
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
import { byBatch, byFilter, byRun, named } from './procedure-meta.ts'
import { promptsRouter } from './prompts.ts'
import { annotationsRouter, samplesPageProcedures, viewsRouter } from './samples-page.ts'
import { poolsRouter, serversRouter } from './servers.ts'
import {
  aboutRouter,
  auditRouter,
  keysRouter,
  limitsRouter,
  retentionRouter,
  sessionsRouter,
} from './settings.ts'
import { lastingProcedure, nothing, openProcedure, procedure, router } from './trpc.ts'

const byBatchId = z.strictObject({ batchId: BatchId })

/** The router of the API: each procedure validates its input and calls one method of a module. */
export const appRouter = router({
  /**
   * Submit rollouts and read their groups.
   * @see docs/batches.md
   */
  batches: router({
    /**
     * Stores a batch and starts to score it. The answer is sent after the batch is stored durably. A repeated
     * `idempotencyKey` with the same content returns the same batch.
     * @throws empty_batch, duplicate_index, group_too_large, integer_out_of_range, idempotency_conflict
     * @throws run_queue_full, run_limit
     * @throws unknown_manager, unknown_data_source, unknown_model, invalid_kwargs, function_outside_folder,
     * invalid_function, unsupported_setting, forbidden_url
     * @example {"run": "gsm8k-grpo", "step": 1, "idempotencyKey": "gsm8k-grpo-1", "samples": [{"uid": "q-1",
     * "dataSource": "openai/gsm8k", "prompt": "6 * 7?", "response": "#### 42", "groundTruth": "42"}]}
     */
    submit: procedure
      .meta({ role: 'trainer', audit: null, runFields: byRun, forSubmitKeys: true })
      .input(SubmitInput)
      .mutation(({ ctx, input }) => ctx.manager.submit(input)),
    /**
     * Adds samples to an open batch. Appending the same samples at the same index again changes nothing.
     * @throws batch_not_found, batch_closed, append_gap, append_conflict, duplicate_index, group_too_large
     * @throws integer_out_of_range, unknown_data_source
     * @throws run_queue_full, run_limit
     * @example {"batchId": "b12", "startIndex": 1, "samples": [{"uid": "q-1", "dataSource": "openai/gsm8k", "prompt":
     * "6 * 7?", "response": "#### 41", "groundTruth": "42"}]}
     */
    append: procedure
      .meta({ role: 'trainer', audit: null, runFields: byBatch, forSubmitKeys: true })
      .input(AppendInput)
      .mutation(({ ctx, input }) => ctx.manager.append(input)),
    /**
     * Scores the rollouts of a batch with another reward, as a new batch.
     * @throws batch_not_found, batch_open, empty_batch, sample_not_found, idempotency_conflict, removed_by_retention,
     * busy
     * @throws run_queue_full, run_limit
     * @throws unknown_manager, unknown_data_source, unknown_model, invalid_kwargs, function_outside_folder,
     * invalid_function, unsupported_setting, forbidden_url
     * @example {"batchId": "b12", "reward": {"model": "rm-8b"}, "select": {"uids": ["q-1"]}}
     */
    rescore: procedure
      .meta({ role: 'trainer', audit: { target: named('batchId') }, runFields: byBatch })
      .input(RescoreSomeInput)
      .mutation(({ ctx, input }) => ctx.manager.rescore(input)),
    /**
     * Closes an open batch. An already closed batch stays as it is; a cancelled or failed batch is refused.
     * @throws batch_not_found, batch_closed
     * @example {"batchId": "b12"}
     */
    close: procedure
      .meta({ role: 'trainer', audit: null, runFields: byBatch, forSubmitKeys: true })
      .input(byBatchId)
      .mutation(({ ctx, input }) => ctx.manager.close(input.batchId)),
    /**
     * Ends the pending samples of a batch as `cancelled` and completes their groups.
     * @throws batch_not_found
     * @example {"batchId": "b12"}
     */
    cancel: procedure
      .meta({
        role: 'trainer',
        audit: { target: named('batchId') },
        runFields: byBatch,
        forSubmitKeys: true,
      })
      .input(byBatchId)
      .mutation(({ ctx, input }) => ctx.manager.cancel(input.batchId)),
    /**
     * Returns completed groups after a cursor, in completion order, until they have at least `samples` samples in
     * total. Reading a group does not remove it.
     * @throws batch_not_found, cursor_mismatch, removed_by_retention
     * @example {"batchId": "b12", "after": null, "samples": 64, "waitMs": 30000}
     */
    next: lastingProcedure
      .meta({ runFields: byBatch, forSubmitKeys: true })
      .input(NextInput)
      .query(({ ctx, input }) => ctx.reader.next(input, ctx.until)),
    /**
     * Returns the summary of a batch when it ends, or after `waitMs`.
     * @throws batch_not_found
     * @example {"batchId": "b12", "waitMs": 60000}
     */
    wait: lastingProcedure
      .meta({ runFields: byBatch, forSubmitKeys: true })
      .input(WaitInput)
      .query(({ ctx, input }) => ctx.reader.wait(input.batchId, input.waitMs, ctx.until)),
    /**
     * Returns the results of a batch as columns in input order.
     * @throws batch_not_found, removed_by_retention
     * @example {"batchId": "b12", "offset": 0, "limit": 10000}
     */
    results: procedure
      .meta({ runFields: byBatch, forSubmitKeys: true })
      .input(ResultsInput)
      .query(({ ctx, input }) => ctx.reader.results(input)),
    /**
     * Returns the summary of a batch.
     * @throws batch_not_found
     * @example {"batchId": "b12"}
     */
    get: procedure
      .meta({ runFields: byBatch, forSubmitKeys: true })
      .input(byBatchId)
      .query(({ ctx, input }) => ctx.reader.summary(input.batchId)),
    /**
     * Lists batches, newest first.
     * @example {"run": "gsm8k-grpo", "status": "running"}
     */
    list: procedure
      .meta({ runFields: byRun })
      .input(BatchListInput.prefault({}))
      .query(({ ctx, input }) => ctx.batches.list(input)),
    /**
     * Returns a batch with its resolved reward, distributions and latencies.
     * @throws batch_not_found
     * @example {"batchId": "b12"}
     */
    view: procedure
      .meta({ runFields: byBatch })
      .input(BatchViewInput)
      .query(({ ctx, input }) => ctx.batches.view(input.batchId)),
    /**
     * Lists the completed groups of a batch.
     * @throws batch_not_found
     * @example {"batchId": "b12", "limit": 50}
     */
    groups: procedure
      .meta({ runFields: byBatch })
      .input(BatchGroupsInput)
      .query(({ ctx, input }) => ctx.batches.groups(input)),
    /**
     * Returns the group timeline of a batch as columns. With `after`, returns only entries that may have changed.
     * @throws batch_not_found
     * @example {"batchId": "b12"}
     */
    timeline: procedure
      .meta({ runFields: byBatch })
      .input(TimelineInput)
      .query(({ ctx, input }) => ctx.timelines.part(input)),
    /**
     * Returns the server that delayed an ended batch, with the estimated duration of the batch without that server.
     * Null if there is no such server, while the batch runs, and for batches of more than 65,536 samples.
     * @throws batch_not_found
     * @example {"batchId": "b12"}
     */
    bottleneck: procedure
      .meta({ runFields: byBatch })
      .input(byBatchId)
      .query(({ ctx, input }) => ctx.timelines.bottleneck(input.batchId)),
  }),
  /**
   * Score single samples and search stored ones.
   * @see docs/samples.md
   */
  samples: router({
    ...samplesPageProcedures,
    /**
     * Scores one sample and returns its reward. Without `batchId`, the sample joins the implicit batch of its run,
     * step, split and reward.
     * @throws batch_not_found, batch_closed, group_too_large, idempotency_conflict
     * @throws run_queue_full, run_limit
     * @throws unknown_manager, unknown_data_source, unknown_model, invalid_kwargs, function_outside_folder,
     * invalid_function, unsupported_setting, forbidden_url
     * @example {"run": "gsm8k-grpo", "step": 1, "sample": {"uid": "q-1", "dataSource": "openai/gsm8k", "prompt": "6 *
     * 7?", "response": "#### 42", "groundTruth": "42"}}
     */
    score: lastingProcedure
      .meta({
        role: 'trainer',
        audit: null,
        runFields: { runs: ['run'], batches: ['batchId'] },
        forSubmitKeys: true,
      })
      .input(ScoreInput)
      .mutation(({ ctx, input }) => ctx.manager.score(input, ctx.until)),
    /**
     * Counts samples by data source, failure reason and status, over the newest 5,000 batches.
     * @throws batch_not_found
     * @example {"run": "gsm8k-grpo"}
     */
    facets: procedure
      .meta({ runFields: byFilter })
      .input(SampleFacetsInput)
      .query(({ ctx, input }) => ctx.samples.facets(input)),
    /**
     * Lists samples that match a filter, without texts. One page searches at most 131,072 samples, or 65,536 texts.
     * @throws batch_not_found, cursor_mismatch
     * @example {"run": "gsm8k-grpo", "status": "failed", "sort": "newest"}
     */
    list: procedure
      .meta({ runFields: byFilter })
      .input(SampleListInput.prefault({}))
      .query(({ ctx, input }) => ctx.samples.list(input)),
    /**
     * Returns a sample with its texts, annotations and attempts.
     * @throws batch_not_found, sample_not_found, removed_by_retention
     * @example {"id": "b12-3"}
     */
    get: procedure
      .meta({ runFields: { batches: ['id'] } })
      .input(SampleDetailInput)
      .query(({ ctx, input }) => ctx.samples.detail(input)),
  }),
  /**
   * Register and change reward-model servers. A server is addressed by `id` or `name`.
   * @see docs/servers.md
   */
  servers: serversRouter,
  /**
   * List pools and set their balancing policies. A pool is all servers of one reward model.
   * @see docs/router.md
   */
  pools: poolsRouter,
  /**
   * Rewards that batches can name.
   * @see docs/rewards.md
   */
  rewards: router({
    /**
     * Lists everything that `reward` can name: rules, managers, judge templates, models and function files.
     */
    list: procedure
      .meta({ runFields: null })
      .input(nothing)
      .query(({ ctx }) => ctx.rewards.get(ctx.actor.role)),
    /**
     * Scores one sample, returns every step of the calculation and stores nothing.
     * @throws busy
     * @throws unknown_manager, unknown_data_source, unknown_model, invalid_kwargs, function_outside_folder,
     * invalid_function, unsupported_setting, forbidden_url
     * @example {"sample": {"dataSource": "openai/gsm8k", "prompt": "6 * 7?", "response": "#### 42", "groundTruth":
     * "42"}}
     */
    try: lastingProcedure
      .meta({ role: 'trainer', audit: null, runFields: null })
      .input(TryInput)
      .mutation(({ ctx, input }) => ctx.playground.try(input, ctx.until)),
    /**
     * Returns the components of composite rewards by step, over the newest 200 batches of a run or of a range of
     * steps.
     * @example {"run": "gsm8k-grpo"}
     */
    components: procedure
      .meta({ runFields: byRun })
      .input(ComponentsInput.prefault({}))
      .query(({ ctx, input }) => ctx.components.get(input)),
    /**
     * Translates a verl configuration (YAML or command line) into a reward.
     * @throws busy
     * @example {"text": "reward_model.reward_manager=dapo"}
     */
    importConfig: procedure
      // The call stores nothing, so viewers may make it, and it is not audited.
      .meta({ role: 'viewer', audit: null, runFields: null })
      .input(ImportConfigInput)
      .mutation(({ ctx, input }) => importOffLoop(input.text, ctx.session.address)),
  }),
  /**
   * Labels and notes on samples.
   * @see docs/samples.md
   */
  annotations: annotationsRouter,
  /**
   * Saved views of the Samples page.
   * @see docs/samples.md
   */
  views: viewsRouter,
  /**
   * Predict step times.
   * @see docs/planner.md
   */
  planner: plannerRouter,
  /**
   * Monitors of runs and their incidents.
   * @see docs/monitors.md
   */
  monitors: monitorsRouter,
  /**
   * Webhooks for incidents.
   * @see docs/monitors.md
   */
  alerts: alertsRouter,
  /**
   * Marks on the charts of a run.
   * @see docs/monitors.md
   */
  marks: marksRouter,
  /**
   * Compare batches and runs.
   * @see docs/compare.md
   */
  compare: compareRouter,
  /**
   * Follow prompts over the steps of a run, and draw prompts for the next step.
   * @see docs/prompts.md
   */
  prompts: promptsRouter,
  /** Runs and their steps. */
  runs: router({
    /** Lists the newest 1,000 runs with their numbers of batches. */
    list: procedure.input(nothing).query(({ ctx }) => ctx.runs.list()),
    /**
     * Returns the steps of a run with scores, group signals, failures, waits and data sources. More than 1,000 steps
     * are merged into bins.
     * @throws run_not_found
     * @example {"name": "gsm8k-grpo"}
     */
    get: procedure
      .meta({ runFields: { runs: ['name'] } })
      .input(RunInput)
      .query(({ ctx, input }) => ctx.runs.get(input)),
    /**
     * Splits the change of the mean score between two ranges of steps by outcome, data source, component and prompt.
     * The parts of each split add up to the change. If no ranges are given, the steps before and after the run's
     * largest sudden change are compared.
     * @throws run_not_found, no_such_step, too_many_samples
     * @example {"name": "gsm8k-grpo", "before": {"from": 1, "to": 10}, "after": {"from": 11, "to": 12}}
     */
    changes: procedure
      .meta({ runFields: { runs: ['name'] } })
      .input(ChangesInput)
      .query(({ ctx, input }) => ctx.changes.get(input)),
    /**
     * Lists runs with their reward statistics, sorted and filtered.
     * @throws cursor_mismatch
     * @example {"sort": "best", "tags": ["baseline"], "config": [{"key": "optimizer.lr", "is": "<=", "value": "1e-6"}],
     * "columns": ["optimizer.lr"]}
     */
    table: procedure
      .input(RunTableInput.prefault({}))
      .query(({ ctx, input }) => ctx.runTable.get(input)),
    /** Lists tags and configuration keys of runs, for filters and columns. */
    facets: procedure.input(nothing).query(({ ctx }) => ctx.runTable.facets()),
    /**
     * Returns the configuration and tags of a run.
     * @throws run_not_found
     * @example {"run": "gsm8k-grpo"}
     */
    config: procedure
      .meta({ runFields: byRun })
      .input(RunConfigInput)
      .query(({ ctx, input }) => ctx.runConfigs.get(input.run)),
    /**
     * Stores the configuration of a run, or changes its tags. The run is created if it does not exist. Every user with
     * access sees the configuration, so it should hold no secrets. Repeating the call changes nothing.
     * @throws invalid_input
     * @example {"run": "gsm8k-grpo", "config": {"model": "qwen3-8b", "optimizer": {"lr": 1e-6}}, "addTags": ["baseline"]}
     */
    update: procedure
      .meta({
        role: 'trainer',
        audit: {
          target: named('run'),
          refs: ['run', 'addTags', 'removeTags'],
          look: async ({ runConfigs }, { run }) => {
            const { config, tags } = await runConfigs.get(String(run))
            return { config, tags }
          },
        },
        runFields: byRun,
        forSubmitKeys: true,
      })
      .input(UpdateRunInput)
      .mutation(({ ctx, input }) => ctx.runConfigs.update(input)),
  }),
  /**
   * Worker processes.
   * @see docs/deployment.md
   */
  workers: router({
    /** Lists the live workers, then those that ended in the last 10 minutes: at most 200 in total, newest first. */
    list: procedure.input(nothing).query(({ ctx }) => ctx.fleet.workers()),
  }),
  /** Servers and workers over time. */
  fleet: router({
    /**
     * Returns throughput, load, balance, retries, latency and events of servers and workers by interval. Values per ten
     * seconds are kept for a day, per minute for 30 days, per hour for a year.
     * @example {"seconds": 900}
     */
    history: procedure
      .input(FleetHistoryInput.prefault({}))
      .query(({ ctx, input }) => ctx.history.get(input)),
  }),
  /** Data of the Overview page. */
  overview: router({
    /** Returns the data of the Overview page. */
    get: procedure.input(nothing).query(({ ctx }) => ctx.overview.get()),
  }),
  /**
   * API keys and their roles.
   * @see docs/access.md
   */
  keys: keysRouter,
  /**
   * Login sessions of browsers.
   * @see docs/access.md
   */
  sessions: sessionsRouter,
  /**
   * Limits of runs.
   * @see docs/settings.md
   */
  limits: limitsRouter,
  /**
   * Removal of old data.
   * @see docs/settings.md
   */
  retention: retentionRouter,
  /**
   * The audit log.
   * @see docs/settings.md
   */
  audit: auditRouter,
  /** Version, settings and disk use of the service. */
  about: aboutRouter,
  /** The demo batch. */
  demo: router({
    /**
     * Submits the bundled demo batch of 512 rollouts.
     * @throws not_found
     */
    load: procedure
      .meta({ role: 'trainer', audit: null })
      .input(nothing)
      .mutation(async ({ ctx }) => ctx.manager.submit(await demoBatch())),
  }),
  /** Live updates. */
  live: router({
    /** Streams the changed topics as server-sent events, at most about three events per second. */
    events: procedure.input(nothing).subscription(async function* ({ ctx, signal }) {
      const { keyEnded } = ctx
      yield* ctx.live.subscribe(signal ? AbortSignal.any([signal, keyEnded]) : keyEnded)
    }),
  }),
  /**
   * Sign in and out of the dashboard.
   * @see docs/access.md
   */
  session: router({
    /** Returns the role of the caller and whether the service requires keys. */
    get: openProcedure.input(nothing).query(({ ctx }) => ctx.session),
    /**
     * Signs a browser in: opens a login session for a key and sets its cookie.
     * @throws unauthorized
     * @example {"key": "rwo_…"}
     */
    signIn: openProcedure
      .input(z.strictObject({ key: z.string().min(1).max(4096) }))
      .mutation(async ({ ctx, input }) => {
        if (!(await ctx.signIn(input.key))) {
          throw new RewardOpsError('unauthorized', 'The key is not valid.', {
            hint: 'Check the key for typing errors, or ask an admin: it may be revoked or expired.',
          })
        }
        return { signedIn: true }
      }),
    /** Signs a browser out: ends its session and clears the cookie. Open streams and long polls end within 2 s. */
    signOut: openProcedure.input(nothing).mutation(async ({ ctx }) => {
      await ctx.signOut()
      return { signedIn: false }
    }),
  }),
})

export type AppRouter = typeof appRouter
