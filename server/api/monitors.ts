import {
  MonitorConfigureInput,
  MonitorHistoryInput,
  MonitorRunInput,
  MonitorSettingsInput,
} from '../contract/monitors.ts'
import { byRun, named } from './procedure-meta.ts'
import { nothing, procedure, router } from './trpc.ts'

export const monitorsRouter = router({
  /** Lists open incidents, and the monitored runs with the state of each monitor. */
  list: procedure.input(nothing).query(({ ctx }) => ctx.monitors.list()),
  /**
   * Returns the monitor values and incidents of a run.
   * @throws run_not_found
   * @example {"run": "gsm8k-grpo"}
   */
  run: procedure
    .meta({ runFields: byRun })
    .input(MonitorRunInput)
    .query(({ ctx, input }) => ctx.monitors.run(input)),
  /**
   * Lists incidents, newest first.
   * @throws run_not_found, cursor_mismatch
   * @example {"run": "gsm8k-grpo", "monitor": "failures"}
   */
  history: procedure
    .meta({ runFields: byRun })
    .input(MonitorHistoryInput.prefault({}))
    .query(({ ctx, input }) => ctx.monitors.history(input)),
  /**
   * Returns the thresholds of a run, or those for all runs.
   * @throws run_not_found
   * @example {"run": "gsm8k-grpo"}
   */
  settings: procedure
    .input(MonitorSettingsInput.prefault({}))
    .query(({ ctx, input }) => ctx.monitors.settings(input)),
  /**
   * Sets the thresholds of a monitor for a run, or for all runs.
   * @throws run_not_found
   * @example {"run": null, "monitor": "failures", "enabled": true, "warning": 0.05, "alerting": 0.2, "openAfter": 2}
   */
  configure: procedure
    .meta({
      role: 'admin',
      audit: {
        target: (input) =>
          `${named('monitor')(input, {})} of ${typeof input.run === 'string' ? input.run : 'every run'}`,
        refs: ['run', 'monitor'],
        look: async ({ monitors }, { run, monitor }) => {
          const settings = await monitors.settings({ run: typeof run === 'string' ? run : null })
          const found = settings.find((one) => one.monitor === monitor)
          if (found === undefined) return null
          const { enabled, warning, alerting, openAfter } = found
          return { enabled, warning, alerting, openAfter }
        },
      },
    })
    .input(MonitorConfigureInput)
    .mutation(({ ctx, input }) => ctx.monitors.configure(input, ctx.actor.name)),
})
