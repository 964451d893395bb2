import {
  MONITOR_DEFINITIONS,
  type MonitorPointDto,
  type MonitorSettingDto,
} from '../../server/contract/monitors.ts'
import { niceTicks, pickTicks, withGaps } from './step-axis.ts'

/** A monitor at one step; null where it has no value, drawn as a gap. */
export interface MonitorStep {
  step: number
  value: number | null
  n: number
  detail: string | null
}

/** A monitor over steps with its thresholds, prepared for drawing. */
export interface MonitorData {
  steps: MonitorStep[]
  /** The values of the threshold lines, with their colors. */
  thresholds: { at: number; severity: 'warning' | 'alerting' }[]
  last: MonitorStep | null
  /** Steps with a value. */
  n: number
  stepTicks: number[]
  valueTicks: { at: number; label: string }[]
}

/** Prepares a monitor; for a step with several batches the last one counts. */
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
  const thresholds = (['warning', 'alerting'] as const).flatMap((severity) => {
    const at = setting[severity]
    return bad === 'size' ? [at, -at].map((one) => ({ at: one, severity })) : [{ at, severity }]
  })
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

/** Round percent ticks that include every value. */
function shareTicks(most: number, least: number): { at: number; label: string }[] {
  return niceTicks(least * 100, Math.max(most * 100, 0.1)).map(({ at, label }) => ({
    ...{ at: at / 100, label: `${label} %` },
  }))
}

/** The last values of a monitor as a sparkline with its threshold; y grows downwards. */
export interface MonitorSpark {
  /** One path per stretch without gaps. */
  lines: string[]
  /** The warning threshold, with both signs where both sides are bad. */
  thresholds: number[]
  last: { x: number; y: number } | null
}

/** Prepares the sparkline; the threshold is always within the scale. */
export function prepareMonitorSpark(
  points: readonly Pick<MonitorPointDto, 'value'>[],
  setting: MonitorSettingDto,
  width: number,
  height: number,
): MonitorSpark {
  const { bad } = MONITOR_DEFINITIONS[setting.monitor]
  const limits = bad === 'size' ? [setting.warning, -setting.warning] : [setting.warning]
  const all = [0, ...limits, ...points.flatMap(({ value }) => value ?? [])]
  const [low, high] = [Math.min(...all), Math.max(...all)]
  const pad = 2
  const yOf = (value: number) =>
    round(height - pad - ((value - low) / (high - low || 1)) * (height - 2 * pad))
  const distance = points.length > 1 ? (width - 2 * pad) / (points.length - 1) : 0
  const stretches: { x: number; y: number }[][] = [[]]
  for (const [at, { value }] of points.entries()) {
    if (value === null) stretches.push([])
    else stretches.at(-1)?.push({ x: round(pad + at * distance), y: yOf(value) })
  }
  const drawn = stretches.filter((points) => points.length > 0)
  return {
    lines: drawn.map((points) =>
      points.length === 1
        ? `M${points[0]?.x} ${points[0]?.y}h0.01`
        : `M${points.map(({ x, y }) => `${x} ${y}`).join('L')}`,
    ),
    thresholds: limits.map(yOf),
    last: points.at(-1)?.value === null ? null : (drawn.at(-1)?.at(-1) ?? null),
  }
}

function round(n: number): number {
  return Math.round(n * 100) / 100
}
