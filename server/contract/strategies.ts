/**
 * Ways to overlap rewards with the trainer's work.
 *
 * - barrier: roll out, wait for every reward, then compute log-probs and update
 * - streaming: as barrier, but each sample is scored as soon as its rollout ends (sample-wise rollout and reward)
 * - pipeline: roll out, compute log-probs, then train on each mini-batch as soon as enough groups are complete
 * - off_policy: the next step's rollout runs before this step's training, so rewards may arrive one step later
 * - both: off_policy and pipeline
 * - all: both and streaming
 *
 * Pipeline and off_policy come from the async reward agent (verl PR 2854).
 */
export const STRATEGIES = ['barrier', 'streaming', 'pipeline', 'off_policy', 'both', 'all'] as const
export type Strategy = (typeof STRATEGIES)[number]

/** The trainer's time per step, by phase. */
export interface Phases {
  rolloutMs: number
  /** The time to compute old log-probabilities, reference log-probabilities and values. */
  logProbMs: number
  /** The time to train on all mini-batches of the step. */
  updateMs: number
}

/** The trainer time of the async reward agent's experiment (verl PR 2854). Its split into phases is an assumption. */
export const ASSUMED_PHASES: Phases = { rolloutMs: 40_000, logProbMs: 43_000, updateMs: 120_000 }
