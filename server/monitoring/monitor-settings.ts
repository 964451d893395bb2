import {
  MONITOR_DEFINITIONS,
  MONITORS,
  type MonitorName,
  type MonitorSettingDto,
} from '../contract/monitors.ts'
import type { SettingRow } from '../store/sql/monitor-state.ts'

/**
 * The settings of a run's monitors. Each field comes from the run's setting, otherwise from the setting for all runs,
 * otherwise from the default.
 */
export function settingsOf(
  rows: readonly SettingRow[],
  runId: number,
): Record<MonitorName, MonitorSettingDto> {
  const find = (run: number, monitor: string) =>
    rows.find((row) => row.run_id === run && row.monitor === monitor)
  return Object.fromEntries(
    MONITORS.map((monitor) => {
      const own = runId === 0 ? undefined : find(runId, monitor)
      const all = find(0, monitor)
      const usual = MONITOR_DEFINITIONS[monitor]
      const nearest = own ?? all
      const setting: MonitorSettingDto = {
        monitor,
        enabled: own?.enabled ?? all?.enabled ?? true,
        warning: own?.warning ?? all?.warning ?? usual.warning,
        alerting: own?.alerting ?? all?.alerting ?? usual.alerting,
        openAfter: own?.open_after ?? all?.open_after ?? usual.openAfter,
        source: own !== undefined ? 'run' : all !== undefined ? 'all_runs' : 'default',
        changedBy: nearest?.changed_by ?? null,
        changedAt: nearest?.changed_at.toISOString() ?? null,
      }
      return [monitor, setting]
    }),
  ) as Record<MonitorName, MonitorSettingDto>
}
