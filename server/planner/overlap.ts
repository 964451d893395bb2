import { FreeSlots } from './free-slots.ts'

/**
 * How a step's rewards and the trainer's own work lie beside each other.
 *
 * - barrier: roll out, wait for every reward, then log-probs and updates
 * - streaming: as barrier, but each sample is scored as soon as its rollout ends (sample-wise rollout and reward)
 * - pipeline: roll out, log-probs, then a mini-batch is trained on as soon as enough groups are complete
 * - off_policy: the next step's rollout goes before this step's training, so its rewards are waited for one step later
 * - both: off_policy, and this step's groups taken mini-batch by mini-batch
 *
 * Pipeline and off_policy are the async reward agent's (verl PR 2854).
 */
export const STRATEGIES = ['barrier', 'streaming', 'pipeline', 'off_policy', 'both'] as const
export type Strategy = (typeof STRATEGIES)[number]

/** What the trainer itself takes a step, ms. */
export interface Phases {
  rolloutMs: number
  /** Old log-probs, reference, values. */
  logProbMs: number
  /** All mini-batches together. */
  updateMs: number
}

/** A training job, as far as its rewards and its time go. */
export interface Workload {
  phases: Phases
  steps: number
  /** Groups a step (prompts). */
  groups: number
  /** Rollouts a group. */
  groupSize: number
  /** Updates a step, each on `groups / miniBatches` groups. */
  miniBatches: number
  /** How long the reward of a step's sample takes, ms, once somebody works on it. */
  rewardMs(step: number, index: number): number
  /** Rewards at once, over all steps in flight; null: as many as there are. */
  concurrency: number | null
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
  /** From the end of the first step to that of the last, a step: without what filling the pipeline takes once. */
  steadyMs: number
  /** Of a step, that the trainer does nothing but wait for rewards. */
  waitMs: number
  /** No step can be shorter on average: the trainer's own work, or what the rewards need at this concurrency. */
  boundMs: number
  spans: Span[]
  /** When each step's rewards were asked for and the last of them was there. */
  rewards: { step: number; fromMs: number; toMs: number }[]
}

/**
 * Replays a training job on a virtual clock. Rewards are served in the order they were asked for, whole service and no
 * cost of its own; a group is there with its slowest reward. Linear in samples, log in concurrency.
 */
export function predict(work: Workload, strategy: Strategy): Prediction {
  const { phases, steps, miniBatches } = work
  const { rolloutMs, logProbMs, updateMs } = phases
  const spans: Span[] = []
  const rewards: Prediction['rewards'] = []
  const service = new FreeSlots(work.concurrency)
  /** By step: when its groups were complete, ascending. */
  const complete: number[][] = []
  let nowMs = 0
  let waitMs = 0
  let firstEndMs = 0
  const busy = (what: Span['what'], step: number, ms: number) => {
    if (ms > 0) spans.push({ what, step, fromMs: nowMs, toMs: nowMs + ms })
    nowMs += ms
  }
  const until = (step: number, atMs: number) => {
    const ms = Math.max(0, atMs - nowMs)
    waitMs += ms
    busy('wait', step, ms)
  }
  const rollOut = (step: number) => {
    const fromMs = nowMs
    busy('rollout', step, rolloutMs)
    const n = work.groups * work.groupSize
    const ends = new Array<number>(work.groups).fill(0)
    let last = 0
    for (let i = 0; i < n; i++) {
      // Rollouts end one after the other; only streaming makes use of it.
      const askedMs = strategy === 'streaming' ? fromMs + (rolloutMs * (i + 1)) / n : nowMs
      const endMs = service.take(askedMs, work.rewardMs(step, i))
      const group = Math.floor(i / work.groupSize)
      ends[group] = Math.max(ends[group] as number, endMs)
      last = Math.max(last, endMs)
    }
    complete[step] = ends.sort((a, b) => a - b)
    rewards[step] = { step, fromMs: strategy === 'streaming' ? fromMs : nowMs, toMs: last }
  }
  const ahead = strategy === 'off_policy' || strategy === 'both'
  const byMiniBatch = strategy === 'pipeline' || strategy === 'both'
  if (ahead) rollOut(0)
  for (let step = 0; step < steps; step++) {
    if (!ahead) rollOut(step)
    else if (step + 1 < steps) rollOut(step + 1)
    const done = complete[step] as number[]
    const lastMs = done.at(-1) ?? nowMs
    if (!ahead && !byMiniBatch) until(step, lastMs)
    busy('log_prob', step, logProbMs)
    if (ahead && !byMiniBatch) until(step, lastMs)
    for (let k = 1; k <= miniBatches; k++) {
      const needed = Math.ceil((work.groups * k) / miniBatches)
      if (byMiniBatch) until(step, done[needed - 1] ?? nowMs)
      busy('update', step, updateMs / miniBatches)
    }
    if (step === 0) firstEndMs = nowMs
  }
  return {
    strategy,
    totalMs: nowMs,
    stepMs: nowMs / steps,
    steadyMs: steps > 1 ? (nowMs - firstEndMs) / (steps - 1) : nowMs,
    waitMs: waitMs / steps,
    boundMs: boundOf(work),
    spans,
    rewards,
  }
}

/**
 * The least a step can take on average, however it is arranged: the trainer's own work, or the rewards' at this
 * concurrency, or the slowest single reward where nothing may be asked for earlier than a step ahead.
 */
export function boundOf(work: Workload): number {
  const { rolloutMs, logProbMs, updateMs } = work.phases
  const n = work.groups * work.groupSize
  let sum = 0
  let longest = 0
  for (let step = 0; step < work.steps; step++) {
    for (let i = 0; i < n; i++) {
      const ms = work.rewardMs(step, i)
      sum += ms
      longest = Math.max(longest, ms)
    }
  }
  const served = work.concurrency === null ? 0 : sum / work.steps / work.concurrency
  return Math.max(rolloutMs + logProbMs + updateMs, served, longest)
}
