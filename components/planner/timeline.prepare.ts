import type { PlannerDto } from '../../server/contract/planner.ts'
import type { Strategy } from '../../server/contract/strategies.ts'

export interface TimelineBar {
  what: PlannerDto['shown']['pictures'][number]['spans'][number]['what']
  step: number
  from: number
  share: number
  ms: number
}

export interface TimelineLane {
  strategy: Strategy
  bars: TimelineBar[]
  /** An SVG path of the rewards in flight: x 0 to 100, y 0 (most) to 100 (none). */
  area: string
  most: number
}

export interface TimelineData {
  lanes: TimelineLane[]
  untilMs: number
  most: number
  ticks: { percent: number; ms: number }[]
}

const TICKS = 6

export function prepareTimeline({ untilMs, pictures }: PlannerDto['shown']): TimelineData {
  const most = Math.max(0, ...pictures.flatMap(({ inFlight }) => inFlight))
  const percent = (ms: number) => (untilMs > 0 ? Math.min(100, (100 * ms) / untilMs) : 0)
  const lanes = pictures.map(({ strategy, spans, inFlight }) => ({
    strategy,
    bars: spans.map(({ what, step, fromMs, toMs }) => ({
      what,
      step,
      from: percent(fromMs) / 100,
      share: (percent(toMs) - percent(fromMs)) / 100,
      ms: toMs - fromMs,
    })),
    area: areaOf(inFlight, most),
    most: Math.max(0, ...inFlight),
  }))
  const every = niceStep(untilMs / TICKS)
  const ticks = []
  for (let ms = 0; every > 0 && ms <= untilMs * 0.985; ms += every) {
    ticks.push({ percent: percent(ms), ms })
  }
  return { lanes, untilMs, most, ticks }
}

/** Returns the path of an area with steps, because each count is the mean over an interval. */
function areaOf(counts: readonly number[], most: number): string {
  if (most === 0) return ''
  const width = 100 / counts.length
  let path = 'M0 100'
  for (const [i, count] of counts.entries()) {
    const y = (100 * (1 - count / most)).toFixed(2)
    path += `L${(i * width).toFixed(3)} ${y}L${((i + 1) * width).toFixed(3)} ${y}`
  }
  return `${path}L100 100Z`
}

function niceStep(ms: number): number {
  if (!(ms > 0)) return 0
  const power = 10 ** Math.floor(Math.log10(ms))
  return (([1, 2, 5].find((n) => n * power >= ms) as number | undefined) ?? 10) * power
}
