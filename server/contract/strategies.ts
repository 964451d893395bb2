/**
 * How a step's rewards and the trainer's own work lie beside each other.
 *
 * - barrier: roll out, wait for every reward, then log-probs and updates
 * - streaming: as barrier, but each sample is scored as soon as its rollout ends (sample-wise rollout and reward)
 * - pipeline: roll out, log-probs, then a mini-batch is trained on as soon as enough groups are complete
 * - off_policy: the next step's rollout goes before this step's training, so its rewards are waited for one step later
 * - both: off_policy, and this step's groups taken mini-batch by mini-batch
 * - all: both, and each sample is scored as soon as its rollout ends
 *
 * Pipeline and off_policy are the async reward agent's (verl PR 2854).
 */
export const STRATEGIES = ['barrier', 'streaming', 'pipeline', 'off_policy', 'both', 'all'] as const
export type Strategy = (typeof STRATEGIES)[number]

/** What the trainer itself takes a step, ms. */
export interface Phases {
  rolloutMs: number
  /** Old log-probs, reference, values. */
  logProbMs: number
  /** All mini-batches together. */
  updateMs: number
}
