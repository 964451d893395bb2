import {
  MONITOR_DEFINITIONS,
  type MonitorPointDto,
  type MonitorSettingDto,
} from '../../server/contract/monitors.ts'
import { niceTicks, pickTicks, type Tick, withGaps } from './ticks.ts'

/** A monitor at one step. A null value is drawn as a gap. */
interface MonitorStep {
  step: number
  value: number | null
  n: number
  detail: string | null
}

export interface MonitorData {
  steps: MonitorStep[]
  thresholds: { at: number; severity: 'warning' | 'alerting' }[]
  last: MonitorStep | null
  /** Number of steps with a value. */
  n: number
  stepTicks: number[]
  valueTicks: Tick[]
}

/** Prepares the chart of a monitor. If a step has several batches, only the last one is shown. */
export function prepareMonitor(
  points: readonly MonitorPointDto[],
  setting: MonitorSettingDto,
): MonitorData {
  const { unit, bad } = MONITOR_DEFINITIONS[setting.monitor]
  const byStep = new Map(points.map((point) => [point.step, point]))
  const numbers = [...byStep.keys()].sort((a, b) => a - b)
  const steps = withGaps(numbers).map((step): MonitorStep => {
    const { value = null, n = 0, detail = null } = byStep.get(step) ?? {}
    return { step, value, n, detail }
  })
  const drawn = steps.filter(({ value }) => value !== null)
  const thresholds = (['warning', 'alerting'] as const).flatMap((severity) =>
    thresholdsOf(setting, severity).map((at) => ({ at, severity })),
  )
  const values = drawn.map(({ value }) => value as number)
  const most = Math.max(0, ...values, ...(bad === 'below' ? [1] : []), setting.alerting)
  return {
    ...{ steps, thresholds, last: drawn.at(-1) ?? null, n: drawn.length },
    stepTicks: pickTicks(numbers, 5),
    valueTicks:
      unit === 'correlation'
        ? [-1, -0.5, 0, 0.5, 1].map((at) => ({ at, label: String(at).replace('-', '−') }))
        : unit === 'ratio' || unit === 'score'
          ? niceTicks(0, Math.max(most, setting.warning))
          : shareTicks(most, Math.min(0, ...values)),
  }
}

function shareTicks(most: number, least: number): Tick[] {
  return niceTicks(least * 100, Math.max(most * 100, 0.1)).map(({ at, label }) => ({
    ...{ at: at / 100, label: `${label} %` },
  }))
}

/** The values of a threshold: with both signs if values in both directions are bad. */
export function thresholdsOf(
  setting: MonitorSettingDto,
  severity: 'warning' | 'alerting',
): number[] {
  const at = setting[severity]
  return MONITOR_DEFINITIONS[setting.monitor].bad === 'size' ? [at, -at] : [at]
}
