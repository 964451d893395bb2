import { type Phases, STRATEGIES, type Strategy } from '../contract/strategies.ts'
import { FreeSlots } from './free-slots.ts'

export { type Phases, STRATEGIES, type Strategy }

/** The rewards of one step, as far as their time goes. */
export interface StepRewards {
  /** How long each takes, ms, once somebody works on it, in the order in which they are asked for. */
  rewardMs: ArrayLike<number>
  /** Which group each belongs to, counted from 0. */
  groupOf: ArrayLike<number>
  groups: number
}

/** A training job, as far as its rewards and its time go. */
export interface Workload {
  phases: Phases
  steps: readonly StepRewards[]
  /** Updates a step, each on its share of the groups. */
  miniBatches: number
  /** Rewards at once, over all steps in flight; null: as many as there are. */
  concurrency: number | null
  /** In how many parts a rollout that is streamed hands its samples over; null: each by itself. */
  streamedParts?: number | null
}

/** One bar of a step's picture, ms from the beginning. */
export interface Span {
  what: 'rollout' | 'log_prob' | 'update' | 'wait'
  step: number
  fromMs: number
  toMs: number
}

/** What a strategy comes to. */
export interface Prediction {
  strategy: Strategy
  /** From the first rollout to the last update. */
  totalMs: number
  /** `totalMs / steps`. */
  stepMs: number
  /**
   * A step that has one before it and one after: from the end of the first step to that of the last but one, a step.
   * Without what filling and draining the pipeline take once. Of less than three steps: `stepMs`.
   */
  steadyMs: number
  /** Of a step, that the trainer does nothing but wait for rewards. */
  waitMs: number
  spans: Span[]
  /** When each step ended, ms. */
  endsMs: number[]
}

/** Told of each reward, in the order asked for: its step, from when to when somebody worked on it. */
export type RewardObserver = (step: number, fromMs: number, toMs: number) => void

/** Steps of equal groups, as a trainer submits them: the rollouts of a group one after the other. */
export function evenSteps(shape: {
  steps: number
  groups: number
  groupSize: number
  /** ms */
  rewardMs(step: number, index: number): number
}): StepRewards[] {
  const n = shape.groups * shape.groupSize
  const groupOf = Int32Array.from({ length: n }, (_, i) => Math.floor(i / shape.groupSize))
  return Array.from({ length: shape.steps }, (_, step) => ({
    rewardMs: Float64Array.from({ length: n }, (_, i) => shape.rewardMs(step, i)),
    groupOf,
    groups: shape.groups,
  }))
}

/** What a strategy does differently. */
const TRAITS: Record<Strategy, { ahead: boolean; byMiniBatch: boolean; streamed: boolean }> = {
  barrier: { ahead: false, byMiniBatch: false, streamed: false },
  streaming: { ahead: false, byMiniBatch: false, streamed: true },
  pipeline: { ahead: false, byMiniBatch: true, streamed: false },
  off_policy: { ahead: true, byMiniBatch: false, streamed: false },
  both: { ahead: true, byMiniBatch: true, streamed: false },
  all: { ahead: true, byMiniBatch: true, streamed: true },
}

/** What a strategy does: the next rollout first; mini-batch by mini-batch; samples asked for as their rollouts end. */
export function traitsOf(strategy: Strategy): {
  ahead: boolean
  byMiniBatch: boolean
  streamed: boolean
} {
  return TRAITS[strategy]
}

/**
 * Replays a training job on a virtual clock. Rewards are served in the order they were asked for, by a service without a
 * cost of its own; a group is there with its slowest reward. Linear in samples, log in concurrency: 36,000 samples take some 8 ms.
 */
export function predict(work: Workload, strategy: Strategy, observe?: RewardObserver): Prediction {
  const { phases, steps, miniBatches } = work
  const { rolloutMs, logProbMs, updateMs } = phases
  const { ahead, byMiniBatch, streamed } = TRAITS[strategy]
  const spans: Span[] = []
  const endsMs: number[] = []
  const service = new FreeSlots(work.concurrency)
  /** By step: when its groups were complete, ascending. */
  const complete: Float64Array[] = []
  let nowMs = 0
  let waitedMs = 0
  const busy = (what: Span['what'], step: number, ms: number) => {
    if (ms > 0) spans.push({ what, step, fromMs: nowMs, toMs: nowMs + ms })
    nowMs += ms
  }
  const until = (step: number, atMs: number) => {
    const ms = Math.max(0, atMs - nowMs)
    waitedMs += ms
    busy('wait', step, ms)
  }
  const rollOut = (step: number) => {
    const { rewardMs, groupOf, groups } = steps[step] as StepRewards
    const fromMs = nowMs
    busy('rollout', step, rolloutMs)
    const n = rewardMs.length
    const part = Math.ceil(n / (work.streamedParts ?? n)) || 1
    const ends = new Float64Array(groups)
    for (let i = 0; i < n; i++) {
      // Rollouts end one after the other; only what is streamed makes use of it.
      const handed = Math.min(n, (Math.floor(i / part) + 1) * part)
      const askedMs = streamed ? fromMs + (rolloutMs * handed) / n : nowMs
      const tookMs = rewardMs[i] as number
      const endMs = service.take(askedMs, tookMs)
      const group = groupOf[i] as number
      if (endMs > (ends[group] as number)) ends[group] = endMs
      observe?.(step, endMs - tookMs, endMs)
    }
    complete[step] = ends.sort()
  }
  if (ahead && steps.length > 0) rollOut(0)
  for (let step = 0; step < steps.length; step++) {
    if (!ahead) rollOut(step)
    else if (step + 1 < steps.length) rollOut(step + 1)
    const done = complete[step] as Float64Array
    const lastMs = done.at(-1) ?? nowMs
    if (!ahead && !byMiniBatch) until(step, lastMs)
    busy('log_prob', step, logProbMs)
    if (ahead && !byMiniBatch) until(step, lastMs)
    for (let k = 1; k <= miniBatches; k++) {
      const needed = Math.ceil((done.length * k) / miniBatches)
      if (byMiniBatch) until(step, done[needed - 1] ?? nowMs)
      busy('update', step, updateMs / miniBatches)
    }
    endsMs.push(nowMs)
  }
  const n = Math.max(1, steps.length)
  const lastButOne = endsMs.at(-2)
  return {
    strategy,
    totalMs: nowMs,
    stepMs: nowMs / n,
    steadyMs:
      n > 2 && lastButOne !== undefined
        ? (lastButOne - (endsMs[0] as number)) / (n - 2)
        : nowMs / n,
    waitMs: waitedMs / n,
    spans,
    endsMs,
  }
}

/** What no arrangement can beat, and what it comes from. */
export interface Bound {
  /** Of a step on average, ms. */
  boundMs: number
  /** compute: the trainer's own work; rewards: what they need at this concurrency. */
  boundBy: 'compute' | 'rewards'
}

/**
 * The least a step can take on average however it is arranged: the trainer's own work, or the time of all rewards over
 * the places there are. The slowest single reward is none: with two steps in flight it may take longer than a step.
 */
export function boundOf(work: Workload): Bound {
  const { rolloutMs, logProbMs, updateMs } = work.phases
  const computeMs = rolloutMs + logProbMs + updateMs
  if (work.concurrency === null) return { boundMs: computeMs, boundBy: 'compute' }
  let sumMs = 0
  for (const { rewardMs } of work.steps) {
    for (let i = 0; i < rewardMs.length; i++) sumMs += rewardMs[i] as number
  }
  const servedMs = sumMs / Math.max(1, work.steps.length) / work.concurrency
  return servedMs > computeMs
    ? { boundMs: servedMs, boundBy: 'rewards' }
    : { boundMs: computeMs, boundBy: 'compute' }
}
