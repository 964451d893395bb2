/**
 * Outcome of the raw-score self-test; only `raw` and `not_applicable` are trusted with training. `selfTestOverride` admits
 * the others, except `constant` and `label_unknown`: scores that say nothing, or nobody knows what.
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
