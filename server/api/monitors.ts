import { z } from 'zod'
import type {
  IncidentPageDto,
  MonitorSettingDto,
  MonitorsDto,
  RunMonitorsDto,
} from '../wire/monitors.ts'
import {
  MonitorConfigureInput,
  MonitorHistoryInput,
  MonitorRunInput,
  MonitorSettingsInput,
} from '../wire/monitors.ts'
import { procedure, router } from './trpc.ts'

/** What the procedures of monitors call. */
export interface MonitorServices {
  listMonitors(): Promise<MonitorsDto>
  runMonitors(input: MonitorRunInput): Promise<RunMonitorsDto>
  monitorHistory(input: MonitorHistoryInput): Promise<IncidentPageDto>
  monitorSettings(input: MonitorSettingsInput): Promise<MonitorSettingDto[]>
  configureMonitor(input: MonitorConfigureInput, by: string): Promise<MonitorSettingDto>
}

/** Monitors of runs: an audit of what has been stored. */
export const monitorsRouter = router({
  list: procedure
    .input(z.strictObject({}).optional())
    .query(({ ctx }) => ctx.services.listMonitors()),
  run: procedure.input(MonitorRunInput).query(({ ctx, input }) => ctx.services.runMonitors(input)),
  history: procedure
    .input(MonitorHistoryInput.prefault({}))
    .query(({ ctx, input }) => ctx.services.monitorHistory(input)),
  settings: procedure
    .input(MonitorSettingsInput.prefault({}))
    .query(({ ctx, input }) => ctx.services.monitorSettings(input)),
  configure: procedure
    .input(MonitorConfigureInput)
    .mutation(({ ctx, input }) => ctx.services.configureMonitor(input, ctx.actor.name)),
})
