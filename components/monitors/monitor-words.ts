import {
  FLEET_DEFINITIONS,
  type FleetMonitorName,
  type IncidentDto,
  MONITOR_DEFINITIONS,
  type MonitorConfigureInput,
  type MonitorDefinition,
  type MonitorName,
  type MonitorSettingDto,
} from '../../server/contract/monitors.ts'
import { formatScore, percentText, readNumber } from '../format/numbers.ts'

export function monitorLabel(monitor: MonitorName | FleetMonitorName): string {
  return monitor in MONITOR_DEFINITIONS
    ? MONITOR_DEFINITIONS[monitor as MonitorName].label
    : FLEET_DEFINITIONS[monitor as FleetMonitorName].label
}

export function readingText(
  monitor: MonitorName | FleetMonitorName,
  value: number | null | undefined,
): string {
  if (value === null || value === undefined) return '–'
  const unit =
    monitor in MONITOR_DEFINITIONS ? MONITOR_DEFINITIONS[monitor as MonitorName].unit : null
  if (unit === 'share') return percentText(value)
  if (unit === 'score') return formatScore(value)
  // Adding 0 turns −0 into 0.
  return (Math.round(value * 100) / 100 + 0).toFixed(2).replace('-', '−')
}

/** A threshold with its direction: `≥ 90 %`, `≤ 0.25`, `±0.70`. */
export function thresholdText(monitor: MonitorName, threshold: number): string {
  const { bad } = MONITOR_DEFINITIONS[monitor]
  const value = readingText(monitor, threshold)
  return bad === 'size' ? `±${value}` : `${bad === 'below' ? '≤' : '≥'} ${value}`
}

/** A threshold as input text. Shares are in percent. */
export function typedThreshold({ unit }: Pick<MonitorDefinition, 'unit'>, value: number): string {
  return String(Number((unit === 'share' ? value * 100 : value).toPrecision(6)))
}

/**
 * Parses a threshold; shares are entered in percent. Returns `stored` for an unedited text, because {@link
 * typedThreshold} rounds. Returns NaN if the text is not a number.
 */
export function readThreshold(
  definition: Pick<MonitorDefinition, 'unit'>,
  typed: string,
  stored: number,
): number {
  if (typed === typedThreshold(definition, stored)) return stored
  const value = readNumber(typed)
  return definition.unit === 'share' ? value / 100 : value
}

export type SettingValues = Pick<
  MonitorSettingDto,
  'enabled' | 'warning' | 'alerting' | 'openAfter'
>

/**
 * The values that a run, or the setting for all runs, stores itself. A value that equals the inherited value is stored
 * as null and therefore follows later changes of the inherited value.
 */
export function ownSettings(
  definition: Pick<MonitorDefinition, 'unit'>,
  values: SettingValues,
  inherited: SettingValues,
): Pick<MonitorConfigureInput, keyof SettingValues> {
  // 2.9 / 100 is 0.028999999999999998, not 0.029, so thresholds are also compared as texts.
  const ownThreshold = (value: number, other: number) =>
    value === other || typedThreshold(definition, value) === typedThreshold(definition, other)
      ? null
      : value
  return {
    enabled: values.enabled === inherited.enabled ? null : values.enabled,
    warning: ownThreshold(values.warning, inherited.warning),
    alerting: ownThreshold(values.alerting, inherited.alerting),
    openAfter: values.openAfter === inherited.openAfter ? null : values.openAfter,
  }
}

export function monitorHref(
  run: string,
  split: 'train' | 'val' | null,
  monitor: MonitorName | FleetMonitorName,
): string {
  return `/runs/${encodeURIComponent(run)}${split === 'val' ? '?split=val' : ''}#monitor-${monitor}`
}

export function incidentHref({ run, split, monitor }: IncidentDto): string {
  return run === null ? '/servers' : monitorHref(run, split, monitor)
}
