import {
  GROUP_SIGNALS,
  type GroupSignal,
  type GroupSignalCounts,
} from '../../server/contract/group-signal.ts'
import type { RunDto, RunSourceDto, RunStepDto } from '../../server/contract/runs.ts'
import { meanInterval } from './mean-interval.ts'
import { durationTicks, niceTicks, pickTicks, shareTicks, type Tick, withGaps } from './ticks.ts'

/** A step of the fan chart; null where the run has no such step, drawn as a gap. */
export interface FanStep {
  step: number
  batchId: string | null
  mean: number | null
  median: number | null
  /** 25 to 75 % and 5 to 95 % of the scores, and the full range. */
  middle: [number, number] | null
  most: [number, number] | null
  all: [number, number] | null
  n: number | null
  /** The 95 % interval of the mean over groups, for rewards of few values. */
  interval: [number, number] | null
  /** The smoothed mean; null without smoothing. */
  smooth: number | null
  /** The mean so far of a running batch. */
  running: number | null
  /** The means of other runs at this step, by run name. */
  [overlay: `run:${string}`]: number | null
}

/** The most distinct scores for which the mean is drawn with its interval instead of quantile bands. */
const FEW_VALUES = 12

/** The rewards of a run over steps, prepared for drawing. */
export interface FanData {
  /** The reward has few values, such as 0 and 1, whose quantiles say nothing. */
  isFewValued: boolean
  steps: FanStep[]
  overlays: string[]
  valueTicks: Tick[]
  stepTicks: number[]
}

/**
 * Prepares the fan chart of a run, with the means of other runs; with `range` the scale includes the minimum and
 * maximum score. A reward of few values has the interval of its mean instead of quantile bands.
 */
export function prepareFan(
  run: Pick<RunDto, 'steps' | 'heat'>,
  overlays: readonly Pick<RunDto, 'name' | 'steps'>[],
  range: boolean,
  smoothing = 0,
): FanData {
  const own = new Map(run.steps.map((step) => [step.step, step]))
  const { heat } = run
  const isFewValued = heat?.kind === 'values' && heat.edges.length <= FEW_VALUES
  const values = isFewValued ? { min: heat.edges[0] ?? 0, max: heat.edges.at(-1) ?? 0 } : null
  const others = overlays.map(({ name, steps }) => ({
    name,
    means: new Map(steps.map(({ step, mean }) => [step, mean])),
  }))
  const all = new Set(own.keys())
  for (const { means } of others) for (const step of means.keys()) all.add(step)
  const numbers = [...all].sort((a, b) => a - b)
  const steps = withGaps(numbers).map((number): FanStep => {
    const point = fanStep(number, own.get(number), values)
    for (const { name, means } of others) point[`run:${name}`] = means.get(number) ?? null
    return point
  })
  if (smoothing > 0) {
    const own = smoothed(
      steps.map(({ mean }) => mean),
      smoothing,
    )
    for (const [at, step] of steps.entries()) step.smooth = own[at] ?? null
    for (const { name } of others) {
      const means = smoothed(
        steps.map((step) => step[`run:${name}`] ?? null),
        smoothing,
      )
      for (const [at, step] of steps.entries()) step[`run:${name}`] = means[at] ?? null
    }
  }
  const drawn = steps.flatMap((step) => [
    ...((range ? step.all : (step.most ?? step.interval)) ?? []),
    ...[step.mean, step.running].filter((mean) => mean !== null),
    ...others.flatMap(({ name }) => step[`run:${name}`] ?? []),
  ])
  return {
    steps,
    overlays: others.map(({ name }) => name),
    isFewValued,
    valueTicks: niceTicks(Math.min(...drawn), Math.max(...drawn)),
    stepTicks: pickTicks(numbers, 8),
  }
}

/**
 * The exponential moving average with this weight of the past, without a bias towards 0 at the start, as W&B computes it.
 * Gaps stay gaps.
 */
export function smoothed(values: readonly (number | null)[], weight: number): (number | null)[] {
  let sum = 0
  let total = 0
  return values.map((value) => {
    if (value === null) return null
    sum = sum * weight + value * (1 - weight)
    total = total * weight + (1 - weight)
    return sum / total
  })
}

function fanStep(
  step: number,
  at: RunStepDto | undefined,
  few: { min: number; max: number } | null,
): FanStep {
  const q = few === null ? (at?.quantiles ?? null) : null
  const ended = at !== undefined && at.n !== null
  return {
    step,
    batchId: at?.batchId ?? null,
    mean: ended ? at.mean : null,
    median: q?.[2] ?? null,
    middle: q && [q[1], q[3]],
    most: q && [q[0], q[4]],
    all: ended && at.min !== null && at.max !== null ? [at.min, at.max] : null,
    n: at?.n ?? null,
    interval:
      few !== null && ended && at.mean !== null
        ? meanInterval({ mean: at.mean, error: at.meanError, groups: at.groups }, few)
        : null,
    smooth: null,
    running: ended ? null : (at?.mean ?? null),
  }
}

/** The no-signal classes, in stacking order. */
const NO_SIGNAL_CLASSES = GROUP_SIGNALS.filter((signal) => signal !== 'varied') as Exclude<
  GroupSignal,
  'varied'
>[]

/** Shares of a step, 0 to 1, of its groups and of its ended samples. */
type ShareStep = { step: number; failed: number | null; groups: number } & Record<
  Exclude<GroupSignal, 'varied'>,
  number | null
>

/** The share of no-signal groups by class, and of failed samples. */
export interface SharesData {
  steps: ShareStep[]
  /** The classes that occur in some step. */
  signals: Exclude<GroupSignal, 'varied'>[]
  signalTicks: Tick[]
  failedTicks: Tick[]
  stepTicks: number[]
}

export function prepareShares(steps: readonly RunStepDto[]): SharesData {
  const byStep = new Map(steps.map((step) => [step.step, step]))
  const numbers = [...byStep.keys()]
  const rows = withGaps(numbers).map((number): ShareStep => {
    const at = byStep.get(number)
    const counts = at?.groupSignals ?? null
    const groups = counts === null ? 0 : totalOf(counts)
    const shares = Object.fromEntries(
      NO_SIGNAL_CLASSES.map((signal) => [
        signal,
        counts === null || groups === 0 ? null : counts[signal] / groups,
      ]),
    )
    const ended = at === undefined ? 0 : at.scored + at.failed
    return {
      step: number,
      failed: at === undefined || ended === 0 ? null : at.failed / ended,
      groups,
      ...shares,
    } as ShareStep
  })
  const stacked = rows.map((row) =>
    NO_SIGNAL_CLASSES.reduce((sum, signal) => sum + (row[signal] ?? 0), 0),
  )
  return {
    steps: rows,
    signals: NO_SIGNAL_CLASSES.filter((signal) => rows.some((row) => (row[signal] ?? 0) > 0)),
    signalTicks: shareTicks(Math.max(0, ...stacked)),
    failedTicks: shareTicks(Math.max(0, ...rows.map(({ failed }) => failed ?? 0))),
    stepTicks: pickTicks(numbers, 6),
  }
}

/** The verdicts and failures of a step as shares of its ended samples, 0 to 1. */
export type OutcomeStep = { step: number; n: number; [outcome: `outcome:${string}`]: number | null }

/** Outcomes over steps, prepared for drawing. */
export interface OutcomeData {
  steps: OutcomeStep[]
  /** Verdicts by frequency, then `other`, `failed` and `substituted` where they occur. */
  outcomes: { name: string; label: string; kind: 'verdict' | 'other' | 'failed' | 'substituted' }[]
  stepTicks: number[]
}

/** Verdicts with an area of their own; hues are few. */
const MAX_VERDICTS = 6

/** Prepares the outcomes; null if no step has a verdict. */
export function prepareOutcomes(steps: readonly RunStepDto[]): OutcomeData | null {
  const totals = new Map<string, number>()
  for (const { verdicts } of steps) {
    for (const { verdict, n } of verdicts) {
      if (verdict !== null) totals.set(verdict, (totals.get(verdict) ?? 0) + n)
    }
  }
  if (totals.size === 0) return null
  const named = [...totals]
    .sort((a, b) => b[1] - a[1])
    .slice(0, MAX_VERDICTS)
    .map(([name]) => name)
  const byStep = new Map(steps.map((step) => [step.step, step]))
  const numbers = [...byStep.keys()]
  const rows = withGaps(numbers).map((number): OutcomeStep => {
    const at = byStep.get(number)
    const counted = at?.verdicts.reduce((sum, { n }) => sum + n, 0) ?? 0
    const ended = at === undefined ? 0 : at.scored + at.failed
    if (at === undefined || at.n === null || ended === 0) {
      const none = ['failed', 'substituted', 'other', ...named.map((name) => `is ${name}`)]
      return {
        step: number,
        n: 0,
        ...Object.fromEntries(none.map((key) => [`outcome:${key}`, null])),
      }
    }
    const row: OutcomeStep = { step: number, n: ended }
    let other = counted
    for (const name of named) {
      const n = at.verdicts.find(({ verdict }) => verdict === name)?.n ?? 0
      row[`outcome:is ${name}`] = n / ended
      other -= n
    }
    row['outcome:other'] = other / ended
    row['outcome:failed'] = at.failed / ended
    row['outcome:substituted'] = Math.max(0, at.scored - counted) / ended
    return row
  })
  const occurs = (key: string) => rows.some((row) => (row[`outcome:${key}`] ?? 0) > 0)
  return {
    steps: rows,
    outcomes: [
      ...named.map((name) => ({ name: `is ${name}`, label: name, kind: 'verdict' as const })),
      ...(['other', 'failed', 'substituted'] as const)
        .filter(occurs)
        .map((name) => ({ name, label: name, kind: name })),
    ],
    stepTicks: pickTicks(numbers, 6),
  }
}

function totalOf(counts: GroupSignalCounts): number {
  return GROUP_SIGNALS.reduce((sum, signal) => sum + counts[signal], 0)
}

/** The reward wait of a step next to its step time. */
interface WaitStep {
  step: number
  waitMs: number | null
  stepMs: number | null
}

/**
 * Reward waits over steps; a step that includes a pause of the job has no step time, so it does not stretch the
 * scale.
 */
export interface WaitData {
  steps: WaitStep[]
  ticks: Tick[]
  stepTicks: number[]
  /** Median of wait ÷ step time. */
  share: number | null
}

export function prepareWaits(steps: readonly RunStepDto[]): WaitData {
  const byStep = new Map(steps.map((step) => [step.step, step]))
  const numbers = [...byStep.keys()]
  const times = steps.flatMap(({ stepMs }) => stepMs ?? [])
  const usual = medianOf(times)
  const rows = withGaps(numbers).map((number): WaitStep => {
    const at = byStep.get(number)
    const stepMs = at?.stepMs ?? null
    return {
      step: number,
      waitMs: at?.waitMs ?? null,
      stepMs: stepMs !== null && usual !== null && stepMs > usual * PAUSE_FACTOR ? null : stepMs,
    }
  })
  const shares = rows.flatMap(({ waitMs, stepMs }) =>
    waitMs === null || stepMs === null ? [] : Math.min(1, waitMs / stepMs),
  )
  return {
    steps: rows,
    ticks: durationTicks(
      Math.max(1, ...rows.flatMap(({ waitMs, stepMs }) => [waitMs ?? 0, stepMs ?? 0])),
    ),
    stepTicks: pickTicks(numbers, 6),
    share: medianOf(shares),
  }
}

/** Above this multiple of the median step time, the job is assumed to have been paused. */
const PAUSE_FACTOR = 10

/** The lower median; null without values. */
export function medianOf(values: readonly number[]): number | null {
  return values.toSorted((a, b) => a - b)[(values.length - 1) >> 1] ?? null
}

/** A data source over steps. */
export interface SourceData {
  name: string
  steps: {
    step: number
    mean: number | null
    middle: [number, number] | null
    n: number
  }[]
  last: { step: number; mean: number; n: number }
}

/** The data sources of a run on one value scale, prepared for drawing. */
export interface SourcesData {
  sources: SourceData[]
  valueTicks: Tick[]
  stepTicks: number[]
}

export function prepareSources(sources: readonly RunSourceDto[]): SourcesData {
  const numbers = [
    ...new Set(sources.flatMap(({ points }) => points.map(({ step }) => step))),
  ].sort((a, b) => a - b)
  const values = sources.flatMap(({ points }) => points.flatMap((p) => [p.q25, p.q75, p.mean]))
  return {
    sources: sources.map(({ name, points }) => {
      const byStep = new Map(points.map((point) => [point.step, point]))
      return {
        name,
        steps: withGaps(numbers).map((step) => {
          const at = byStep.get(step)
          return {
            step,
            mean: at?.mean ?? null,
            middle: at ? [at.q25, at.q75] : null,
            n: at?.n ?? 0,
          }
        }),
        last: points.at(-1) as SourceData['last'],
      }
    }),
    valueTicks: niceTicks(Math.min(...values), Math.max(...values)),
    stepTicks: pickTicks(numbers, 4),
  }
}
