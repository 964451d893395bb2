import {
  GROUP_SIGNALS,
  type GroupSignal,
  type GroupSignalCounts,
} from '../../server/contract/group-signal.ts'
import type { RunDto, RunStepDto } from '../../server/contract/runs.ts'
import { capitalized } from '../format/text.ts'
import { meanInterval } from './mean-interval.ts'
import type { StepRow } from './step-axis.prepare.ts'
import {
  durationTicks,
  logDurationTicks,
  niceTicks,
  pickTicks,
  shareTicks,
  type Tick,
  withGaps,
} from './ticks.ts'

/** A step of the fan chart. Values are null, drawn as a gap, if the run has no such step. */
export interface FanStep extends StepRow {
  batchId: string | null
  mean: number | null
  median: number | null
  /** The 25th–75th and the 5th–95th percentile of the scores, and their full range. */
  middle: [number, number] | null
  most: [number, number] | null
  all: [number, number] | null
  n: number | null
  /** The 95 % confidence interval of the mean over groups, for a reward with few distinct values. */
  interval: [number, number] | null
  /** The lowest and the highest step mean in a bin. */
  means: [number, number] | null
  /** The smoothed mean; null while smoothing is off. */
  smooth: number | null
  /** The mean of the samples that a running batch has scored so far. */
  running: number | null
  /** The means of other runs at this step, by run name. */
  [overlay: `run:${string}`]: number | null
}

/** A reward with at most this many distinct scores is drawn with the interval of its mean instead of quantile bands. */
export const FEW_VALUES = 12

export interface FanData {
  /** Whether the reward has few distinct values, such as 0 and 1, so that quantiles are not informative. */
  isFewValued: boolean
  steps: FanStep[]
  /** Number of steps of the run with a mean. */
  points: number
  /** The largest number of steps per point. */
  perPoint: number
  overlays: string[]
  valueTicks: Tick[]
  stepTicks: number[]
}

export interface FanOptions {
  /** Whether the scale includes the minimum and maximum score. */
  range?: boolean
  /** The weight of earlier steps in the smoothed mean; 0 does not smooth. */
  smoothing?: number
  /** On a time axis, returns the time of a step. Other runs are then shifted to start at the same time as this run. */
  timeOf?: ((step: number) => number | null) | null
}

type FanRun = Pick<RunDto, 'steps' | 'startedAt'>

export function prepareFan(
  run: FanRun & Pick<RunDto, 'heat'>,
  overlays: readonly (FanRun & Pick<RunDto, 'name'>)[],
  { range = false, smoothing = 0, timeOf = null }: FanOptions = {},
): FanData {
  const own = new Map(run.steps.map((step) => [step.step, step]))
  const { heat } = run
  const values = fewValues(heat)
  const xOf = timeOf ?? ((step: number) => step)
  const byX = new Map<number, FanStep>()
  for (const number of gapped(run.steps)) {
    const x = xOf(number)
    if (x !== null) byX.set(x, fanStep(number, own.get(number), values))
  }
  const smooth = smoothedMeans(run.steps, smoothing)
  if (smoothing > 0) for (const row of byX.values()) row.smooth = smooth.get(row.step) ?? null
  for (const other of overlays) {
    const means = smoothedMeans(other.steps, smoothing)
    const delayMs = Date.parse(run.startedAt ?? '') - Date.parse(other.startedAt ?? '')
    for (const { step, submittedAt } of other.steps) {
      const x = timeOf === null ? step : Date.parse(submittedAt) + delayMs
      const row = byX.get(x) ?? { ...fanStep(step, undefined, values), other: { x } }
      row[`run:${other.name}`] = means.get(step) ?? null
      byX.set(x, row)
    }
  }
  const steps = [...byX].sort(([a], [b]) => a - b).map(([x, row]) => ({ x, row }))
  bridge(steps)
  const drawn = steps.flatMap(({ row }) => [
    ...((range ? row.all : (row.most ?? row.interval)) ?? []),
    ...(row.means ?? []),
    ...[row.mean, row.running].filter((mean) => mean !== null),
    ...overlays.flatMap(({ name }) => row[`run:${name}`] ?? []),
  ])
  const numbers = new Set([...own.keys(), ...overlays.flatMap(({ steps }) => steps.map(stepNo))])
  const [low, high] = rangeOf(drawn)
  return {
    steps: steps.map(({ row }) => row),
    points: run.steps.filter(({ n, mean }) => n !== null && mean !== null).length,
    perPoint: run.steps.reduce((most, { bin }) => Math.max(most, bin?.steps ?? 1), 1),
    overlays: overlays.map(({ name }) => name),
    isFewValued: values !== null,
    valueTicks: niceTicks(low, high),
    stepTicks: pickTicks(
      [...numbers].sort((a, b) => a - b),
      8,
    ),
  }
}

/** The lowest and the highest score of a reward with few distinct values. Null for other rewards. */
function fewValues(heat: RunDto['heat']): { min: number; max: number } | null {
  return heat?.kind === 'values' && heat.edges.length <= FEW_VALUES
    ? { min: heat.edges[0] ?? 0, max: heat.edges.at(-1) ?? 0 }
    : null
}

const stepNo = ({ step }: { step: number }) => step

/**
 * The smallest and the largest value. `Math.min` is not used, because spreading a long array into it overflows the
 * stack.
 */
function rangeOf(values: readonly number[]): [number, number] {
  return [
    values.reduce((a, b) => Math.min(a, b), Number.POSITIVE_INFINITY),
    values.reduce((a, b) => Math.max(a, b), Number.NEGATIVE_INFINITY),
  ]
}

/** The first step of each point, with gaps where points are missing. */
function gapped(steps: readonly RunStepDto[]): number[] {
  const ends = new Map(steps.map(({ step, bin }) => [step, bin?.last ?? step]))
  return withGaps([...ends.keys()], (step) => ends.get(step) as number)
}

export function countSteps(steps: readonly Pick<RunStepDto, 'bin'>[]): number {
  return steps.reduce((sum, { bin }) => sum + (bin?.steps ?? 1), 0)
}

function lastOf(at: Pick<RunStepDto, 'bin'> | undefined): { last?: number } {
  return at?.bin ? { last: at.bin.last } : {}
}

const LINES = ['mean', 'median', 'smooth'] as const
const BANDS = ['middle', 'most', 'all', 'interval', 'means'] as const

/**
 * Interpolates the values of this run in rows that only other runs have. Otherwise its line would break at these rows.
 */
function bridge(rows: readonly { x: number; row: FanStep }[]): void {
  let before = -1
  for (const [at, { row }] of rows.entries()) {
    if (row.other) continue
    const from = rows[before]
    const to = rows[at] as (typeof rows)[number]
    for (let i = before + 1; from !== undefined && i < at; i++) {
      const { x, row: between } = rows[i] as (typeof rows)[number]
      const share = (x - from.x) / (to.x - from.x)
      const mix = (a: number, b: number) => a + share * (b - a)
      for (const key of LINES) {
        const [a, b] = [from.row[key], to.row[key]]
        if (a !== null && b !== null) between[key] = mix(a, b)
      }
      for (const key of BANDS) {
        const [a, b] = [from.row[key], to.row[key]]
        if (a !== null && b !== null) between[key] = [mix(a[0], b[0]), mix(a[1], b[1])]
      }
    }
    before = at
  }
}

/** The means of ended steps, smoothed if `weight` is above 0. A bin is weighted by its number of steps. */
function smoothedMeans(steps: readonly RunStepDto[], weight: number): Map<number, number | null> {
  const means = steps.map(({ n, mean }) => (n === null ? null : mean))
  const weights = steps.map(({ bin }) => weight ** (bin?.steps ?? 1))
  const values = weight > 0 ? smoothed(means, weights) : means
  return new Map(steps.map(({ step }, at) => [step, values[at] ?? null]))
}

/**
 * The exponential moving average as W&B computes it, without a bias towards 0 at the start. `weights` has, for each
 * value, the weight of the earlier values. Gaps stay gaps.
 */
export function smoothed(
  values: readonly (number | null)[],
  weights: readonly number[],
): (number | null)[] {
  let sum = 0
  let total = 0
  return values.map((value, at) => {
    if (value === null) return null
    const weight = weights[at] as number
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
    ...lastOf(at),
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
    means: at?.bin?.means ?? null,
    smooth: null,
    running: ended ? null : (at?.mean ?? null),
  }
}

const NO_SIGNAL_CLASSES = GROUP_SIGNALS.filter((signal) => signal !== 'varied') as Exclude<
  GroupSignal,
  'varied'
>[]

/** Shares at one step, 0 to 1. The share of a no-signal class is its share of the groups. */
export type ShareStep = StepRow & {
  /** Failed samples as a share of the scored and failed samples. */
  failed: number | null
  /** The lowest and the highest share of failed samples of any step in a bin. */
  failures: [number, number] | null
  groups: number
} & Record<Exclude<GroupSignal, 'varied'>, number | null>

export interface SharesData {
  steps: ShareStep[]
  signals: Exclude<GroupSignal, 'varied'>[]
  signalTicks: Tick[]
  failedTicks: Tick[]
  stepTicks: number[]
}

export function prepareShares(steps: readonly RunStepDto[]): SharesData {
  const byStep = new Map(steps.map((step) => [step.step, step]))
  const numbers = [...byStep.keys()]
  const rows = gapped(steps).map((number): ShareStep => {
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
      ...lastOf(at),
      failed: at === undefined || ended === 0 ? null : at.failed / ended,
      failures: at?.bin?.failedShares ?? null,
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
    failedTicks: shareTicks(
      Math.max(0, ...rows.map(({ failed, failures }) => failures?.[1] ?? failed ?? 0)),
    ),
    stepTicks: pickTicks(numbers, 6),
  }
}

/** The verdicts and failures of a step as shares of its scored and failed samples, 0 to 1. */
export type OutcomeStep = StepRow & {
  n: number
  [outcome: `outcome:${string}`]: number | null
}

export interface OutcomeData {
  steps: OutcomeStep[]
  /** Verdicts by frequency, then `other`, `failed` and `substituted` where they occur. */
  outcomes: { name: string; label: string; kind: 'verdict' | 'other' | 'failed' | 'substituted' }[]
  stepTicks: number[]
}

/** Maximum number of verdicts with their own area, because there are only eight hues. */
const MAX_VERDICTS = 6

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
  const rows = gapped(steps).map((number): OutcomeStep => {
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
    const row = { step: number, ...lastOf(at), n: ended } as OutcomeStep
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
        .map((name) => ({ name, label: capitalized(name), kind: name })),
    ],
    stepTicks: pickTicks(numbers, 6),
  }
}

function totalOf(counts: GroupSignalCounts): number {
  return GROUP_SIGNALS.reduce((sum, signal) => sum + counts[signal], 0)
}

interface WaitStep extends StepRow {
  waitMs: number | null
  stepMs: number | null
  /** The shortest and the longest reward wait of any step in a bin. */
  waits: [number, number] | null
}

/**
 * Reward waits over steps. A step that includes a pause of the job has no step time, because its length would stretch
 * the scale.
 */
export interface WaitData {
  steps: WaitStep[]
  ticks: Tick[]
  stepTicks: number[]
  /** Whether the values span a factor of ten or more. The chart then offers a logarithmic axis. */
  isWide: boolean
  /** Number of steps with a value of 0, which a logarithmic axis cannot show. */
  zeros: number
}

/** Prepares reward waits; on a logarithmic axis, a value of 0 has no position and becomes a gap. */
export function prepareWaits(
  steps: readonly RunStepDto[],
  { log = false }: { log?: boolean } = {},
): WaitData {
  const byStep = new Map(steps.map((step) => [step.step, step]))
  const numbers = [...byStep.keys()]
  const usual = medianOf(steps.flatMap(({ stepMs }) => stepMs ?? []))
  let zeros = 0
  const rows = gapped(steps).map((number): WaitStep => {
    const at = byStep.get(number)
    const stepMs = at?.stepMs ?? null
    const isPause = stepMs !== null && usual !== null && stepMs > usual * PAUSE_FACTOR
    const row: WaitStep = {
      step: number,
      ...lastOf(at),
      waitMs: at?.waitMs ?? null,
      stepMs: isPause ? null : stepMs,
      waits: at?.bin?.waitsMs ?? null,
    }
    if (!log) return row
    const shown = (ms: number | null) => (ms !== null && ms > 0 ? ms : null)
    if (valuesOf(row).some((ms) => ms <= 0)) zeros++
    return {
      ...row,
      ...{ waitMs: shown(row.waitMs), stepMs: shown(row.stepMs) },
      waits: row.waits !== null && row.waits[0] > 0 ? row.waits : null,
    }
  })
  const values = rows.flatMap(valuesOf)
  const [least, most] = rangeOf(values.filter((ms) => ms > 0))
  return {
    steps: rows,
    ticks: log && least <= most ? logDurationTicks(least, most) : durationTicks(Math.max(1, most)),
    stepTicks: pickTicks(numbers, 6),
    isWide: most >= least * 10,
    zeros,
  }
}

function valuesOf({ waitMs, stepMs, waits }: WaitStep): number[] {
  return [waitMs, stepMs, ...(waits ?? [])].filter((ms) => ms !== null)
}

/** A step longer than this multiple of the median step time is assumed to include a pause of the job. */
const PAUSE_FACTOR = 10

/** The lower median; null if there are no values. */
export function medianOf(values: readonly number[]): number | null {
  return values.toSorted((a, b) => a - b)[(values.length - 1) >> 1] ?? null
}

export interface SourceData {
  name: string
  steps: (StepRow & {
    mean: number | null
    /** First and third quartile of the scores; null if the reward has few distinct values. */
    middle: [number, number] | null
    n: number
  })[]
  last: { step: number; mean: number; n: number }
}

export interface SourcesData {
  sources: SourceData[]
  hasBands: boolean
  valueTicks: Tick[]
  stepTicks: number[]
}

export function prepareSources({
  sources,
  steps,
  heat,
}: Pick<RunDto, 'sources' | 'steps' | 'heat'>): SourcesData {
  const hasBands = fewValues(heat) === null
  const stepAt = new Map(steps.map((step) => [step.step, step]))
  const numbers = [
    ...new Set(sources.flatMap(({ points }) => points.map(({ step }) => step))),
  ].sort((a, b) => a - b)
  const values = sources.flatMap(({ points }) =>
    points.flatMap((p) => (hasBands ? [p.q25, p.q75, p.mean] : [p.mean])),
  )
  return {
    sources: sources.map(({ name, points }) => {
      const byStep = new Map(points.map((point) => [point.step, point]))
      return {
        name,
        steps: gapped(steps).map((step) => {
          const at = byStep.get(step)
          return {
            step,
            ...lastOf(stepAt.get(step)),
            mean: at?.mean ?? null,
            middle: at && hasBands ? [at.q25, at.q75] : null,
            n: at?.n ?? 0,
          }
        }),
        last: points.at(-1) as SourceData['last'],
      }
    }),
    hasBands,
    valueTicks: niceTicks(...rangeOf(values)),
    stepTicks: pickTicks(numbers, 4),
  }
}
