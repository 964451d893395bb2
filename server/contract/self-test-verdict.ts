/**
 * Outcome of the raw-score self-test; only `raw` and `not_applicable` are trusted with training. `selfTestOverride` admits
 * the others, except `constant` and `label_unknown`: scores that say nothing, or nobody knows what.
 * - `raw`: scores come as the model's head gives them
 * - `constant`: unlike texts all score the same, bit for bit
 * - `label_unknown`: the model has several labels, and the registration does not name the one that is the score
 * - `squashed`: scores are activated (a sigmoid, a softmax) although raw ones were asked for
 * - `inverted`: asking for raw gives activated ones and the other way round (vLLM of late 2025, by its old word)
 * - `truncated`: the end of a long text does not count, so what is scored is not the whole answer
 * - `differs`: it scores the calibration texts otherwise than the other replicas of its model
 * - `unverified`: raw and activated scores are indistinguishable, or do not belong together
 * - `not_applicable`: the engine has no activation, and the scores are as they are
 * - `failed`: the server gave no score to test
 */
export type SelfTestVerdict =
  | 'raw'
  | 'constant'
  | 'label_unknown'
  | 'squashed'
  | 'inverted'
  | 'truncated'
  | 'differs'
  | 'unverified'
  | 'not_applicable'
  | 'failed'

/** Whether scores of this verdict are trained with unless an admin overrides it. */
export function isTrusted(verdict: SelfTestVerdict): boolean {
  return verdict === 'raw' || verdict === 'not_applicable'
}

/** Whether an admin may have a server used in spite of its verdict. */
export function isOverridable(verdict: SelfTestVerdict): boolean {
  return verdict !== 'constant' && verdict !== 'label_unknown'
}
