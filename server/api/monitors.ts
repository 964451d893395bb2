import { z } from 'zod'
import {
  MonitorConfigureInput,
  MonitorHistoryInput,
  MonitorRunInput,
  MonitorSettingsInput,
} from '../contract/monitors.ts'
import { procedure, router } from './trpc.ts'

/** Monitors of runs: an audit of what has been stored. */
export const monitorsRouter = router({
  list: procedure.input(z.strictObject({}).optional()).query(({ ctx }) => ctx.monitors.list()),
  run: procedure.input(MonitorRunInput).query(({ ctx, input }) => ctx.monitors.run(input)),
  history: procedure
    .input(MonitorHistoryInput.prefault({}))
    .query(({ ctx, input }) => ctx.monitors.history(input)),
  settings: procedure
    .input(MonitorSettingsInput.prefault({}))
    .query(({ ctx, input }) => ctx.monitors.settings(input)),
  configure: procedure
    .input(MonitorConfigureInput)
    .mutation(({ ctx, input }) => ctx.monitors.configure(input, ctx.actor.name)),
})
