import {
  MONITOR_DEFINITIONS,
  type MonitorPointDto,
  type MonitorSettingDto,
} from '../../server/wire/monitors.ts'
import { niceTicks, pickTicks, withGaps } from './step-axis.ts'

/** A monitor at one step; null where it has no number: a gap stays one. */
export interface MonitorStep {
  step: number
  value: number | null
  n: number
  detail: string | null
}

/** A monitor over the steps with its thresholds, ready to draw. */
export interface MonitorData {
  steps: MonitorStep[]
  /** At what values lines are drawn, and in whose colour. */
  thresholds: { at: number; severity: 'warning' | 'alerting' }[]
  last: MonitorStep | null
  /** Steps that have a number. */
  n: number
  stepTicks: number[]
  valueTicks: { at: number; label: string }[]
}

/** Prepares a monitor; of a step that was sent several times the last batch. */
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

/** Round ticks in per cent that hold everything. */
function shareTicks(most: number, least: number): { at: number; label: string }[] {
  return niceTicks(least * 100, Math.max(most * 100, 0.1)).map(({ at, label }) => ({
    ...{ at: at / 100, label: `${label} %` },
  }))
}

/** The last values of a monitor as a line in a box, with its threshold; y grows downwards. */
export interface MonitorSpark {
  /** One path a stretch without gaps. */
  lines: string[]
  /** Of the warning's threshold, of both signs where both are bad. */
  thresholds: number[]
  last: { x: number; y: number } | null
}

/** Prepares the small picture: the threshold is always in it, so that near and far look it. */
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
