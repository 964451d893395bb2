/**
 * Verdict of the raw-score self-test. Only servers with the verdict `raw` or `not_applicable` are used.
 * `selfTestOverride` admits servers with any other verdict except `constant` and `label_unknown`, whose scores carry no
 * information or have no known meaning.
 * - `raw`: scores come from the model's head without an activation
 * - `constant`: different texts all score exactly the same
 * - `label_unknown`: the model has several labels, and the registration does not name the label that is the score
 * - `squashed`: scores are activated (sigmoid, softmax) although raw ones were requested
 * - `inverted`: raw and activated scores are swapped (vLLM of late 2025, with its old parameter name)
 * - `truncated`: the end of a long text does not change the score, so the server does not read long responses to their
 *   end
 * - `differs`: the calibration scores differ from those of the other replicas of the model
 * - `unverified`: raw and activated scores are indistinguishable or unrelated, or all raw scores are within 0 to 1 and
 *   the server returned no activated scores
 * - `not_applicable`: the engine has no activation
 * - `failed`: the server returned no score
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

/** Whether a server with this verdict is used without an override. */
export function isTrusted(verdict: SelfTestVerdict): boolean {
  return verdict === 'raw' || verdict === 'not_applicable'
}

/** Whether an admin can admit a server with this verdict. */
export function isOverridable(verdict: SelfTestVerdict): boolean {
  return verdict !== 'constant' && verdict !== 'label_unknown'
}
