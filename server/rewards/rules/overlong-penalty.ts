/** Inputs of the penalty of DAPO's reward manager; all lengths are in tokens. */
export interface OverlongPenaltyInput {
  validResponseLength: number
  /** The longest response allowed (`max_resp_len`). */
  maxResponseLength: number
  /** Last part of `maxResponseLength`, over which the penalty grows (`overlong_buffer_cfg.len`); above 0. */
  bufferLength: number
  /** Penalty at the end of the buffer (`overlong_buffer_cfg.penalty_factor`). */
  penaltyFactor: number
}

/**
 * DAPO's soft penalty for overlong responses, as verl's `dapo` manager adds it to the score. It is 0 up to
 * `maxResponseLength - bufferLength`, then falls linearly to `-penaltyFactor` at `maxResponseLength`. Beyond that it
 * keeps falling, as in verl; in the paper it stays at `-penaltyFactor`.
 */
export function overlongPenalty(input: OverlongPenaltyInput): {
  penalty: number
  overlong: boolean
} {
  const { validResponseLength, maxResponseLength, bufferLength, penaltyFactor } = input
  const exceeding = validResponseLength - (maxResponseLength - bufferLength)
  const penalty = (-exceeding / bufferLength) * penaltyFactor
  return penalty < 0 ? { penalty, overlong: true } : { penalty: 0, overlong: false }
}
