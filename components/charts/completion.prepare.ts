import { durationText } from '../format/numbers.ts'
import { linearTicks, TIME_STEPS_MS, type Tick } from './ticks.ts'

/** A point of the completion curve: `groups` completed at `ms` after acceptance. */
interface CompletionPoint {
  ms: number
  groups: number
}

export interface CompletionChartData {
  points: CompletionPoint[]
  /** The part of the curve from the last completion to now, while the batch runs. It is drawn paler. */
  waiting: CompletionPoint[]
  ticks: Tick[]
  /** Time to p50 of groups and time to all groups, ms. Null until reached. */
  halfMs: number | null
  allMs: number | null
  endMs: number
  /** Ticks of the count axis, none above the number of groups. */
  countTicks: Tick[]
}

/** Prepares the curve. `elapsedMs` is the age of a running batch; null if the batch has ended. */
export function prepareCompletion(
  completion: readonly CompletionPoint[],
  totalGroups: number,
  elapsedMs: number | null,
): CompletionChartData {
  const points = [{ ms: 0, groups: 0 }, ...completion]
  const last = points.at(-1) as CompletionPoint
  const reachedMs = Math.max(last.ms, elapsedMs ?? 0, 1)
  // The axis of a running batch ends at its next tick, so the scale does not change with every update.
  const stepMs = timeStep(reachedMs)
  const endMs = elapsedMs === null ? reachedMs : Math.ceil(reachedMs / stepMs) * stepMs
  const reach = (groups: number) =>
    groups <= 0 ? null : (points.find((p) => p.groups >= groups)?.ms ?? null)
  return {
    points,
    waiting:
      elapsedMs !== null && elapsedMs > last.ms
        ? [last, { ms: elapsedMs, groups: last.groups }]
        : [],
    ticks: timeTicks(endMs),
    halfMs: reach(Math.ceil(totalGroups / 2)),
    allMs: reach(totalGroups),
    endMs,
    countTicks: linearTicks(totalGroups).filter((tick) => tick.at <= totalGroups),
  }
}

function timeStep(endMs: number): number {
  return TIME_STEPS_MS.find((each) => endMs / each <= 6) ?? (TIME_STEPS_MS.at(-1) as number)
}

/** At most seven round times from 0 to `endMs`. */
export function timeTicks(endMs: number): Tick[] {
  const step = timeStep(endMs)
  const ticks: Tick[] = []
  for (let at = 0; at <= endMs; at += step) {
    ticks.push({ at, label: at === 0 ? '0' : durationText(at).replace(/\.0+(?=\D)/, '') })
  }
  return ticks
}
