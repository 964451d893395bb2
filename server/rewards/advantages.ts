import type { GroupSignal } from '../contract/group-signal.ts'
import { PASS_SCORE } from '../contract/prompts.ts'

export interface GroupStatistics {
  /** Number of members, including failed ones. */
  members: number
  scored: number
  failed: number
  mean: number | null
  /** Sample standard deviation (divisor n − 1); null with fewer than two scored members. */
  std: number | null
  min: number | null
  max: number | null
}

export interface AdvantageOptions {
  /** Divide by the group's standard deviation (verl's `norm_adv_by_std_in_grpo`). Default true. */
  normByStd?: boolean
  /** Added to the standard deviation. Default 1e-6, as in verl. */
  epsilon?: number
}

/** Computes the statistics of a group. Members without a finite score count only in `members` and `failed`. */
export function groupStatistics(scores: readonly (number | null)[]): GroupStatistics {
  const valid = scores.filter(isScore)
  const { mean, std, scale } = momentsOf(valid)
  return {
    members: scores.length,
    scored: valid.length,
    failed: scores.length - valid.length,
    mean: valid.length === 0 ? null : mean * scale,
    std: valid.length < 2 ? null : Math.min(std * scale, Number.MAX_VALUE),
    min: valid.length === 0 ? null : smallest(valid),
    max: valid.length === 0 ? null : largest(valid),
  }
}

/**
 * Computes the GRPO advantages of one group: `(score − mean) / (std + epsilon)` with n − 1 as in verl, over the members
 * that have a score. A failed member (`null`) affects neither mean nor deviation and gets `null`. verl scores it 0 and
 * lets that 0 change the mean of the whole group; pass 0 instead of `null` to get verl's values.
 *
 * As in verl, a group of one has mean 0 and deviation 1, so its advantage is its score over 1 + epsilon. The only
 * scored member of a larger group gets 0, because its raw score would outweigh every normalized advantage.
 */
export function grpoAdvantages(
  scores: readonly (number | null)[],
  options: AdvantageOptions = {},
): (number | null)[] {
  const { normByStd = true, epsilon = 1e-6 } = options
  const valid = scores.filter(isScore)
  if (valid.length === 1) {
    const alone = scores.length === 1
    return scores.map((score) => {
      if (!isScore(score)) return null
      if (!alone) return 0
      return normByStd ? score / (1 + epsilon) : score
    })
  }
  const { mean, std, scale } = momentsOf(valid)
  const equal = std === 0
  return scores.map((score) => {
    if (!isScore(score)) return null
    if (equal) return 0
    const above = score / scale - mean
    return normByStd ? above / (std + epsilon / scale) : above * scale
  })
}

/**
 * Classifies a group by its training signal. A score of at least `correctAt` is correct, one of at most `incorrectAt`
 * is incorrect. The defaults, 1 and 0, fit rules that score 0 or 1, and DAPO's rule, which scores −1 or 1. Failed
 * members are ignored: a group of one correct and three failed members is `single_sample`.
 */
export function groupSignal(
  scores: readonly (number | null)[],
  limits?: { correctAt?: number; incorrectAt?: number },
): GroupSignal {
  return signalOf(groupStatistics(scores), limits)
}

export function signalOf(
  { members, scored, min, max }: Pick<GroupStatistics, 'members' | 'scored' | 'min' | 'max'>,
  { correctAt = PASS_SCORE, incorrectAt = 0 }: { correctAt?: number; incorrectAt?: number } = {},
): GroupSignal {
  if (members === 0) return 'empty'
  if (min === null || max === null) return 'all_failed'
  if (scored === 1) return 'single_sample'
  if (min !== max) return 'varied'
  if (min >= correctAt) return 'all_correct'
  return max <= incorrectAt ? 'all_incorrect' : 'all_equal'
}

function isScore(score: number | null): score is number {
  return score !== null && Number.isFinite(score)
}

/**
 * Mean and deviation in units of `scale`, in two passes. `scale` is 1, or the largest magnitude if that exceeds 1e100,
 * so that squares do not overflow.
 */
function momentsOf(scores: readonly number[]): { mean: number; std: number; scale: number } {
  if (scores.length === 0) return { mean: 0, std: 0, scale: 1 }
  const low = smallest(scores)
  const high = largest(scores)
  if (low === high) return { mean: low, std: 0, scale: 1 }
  const widest = Math.max(Math.abs(low), Math.abs(high))
  const scale = widest > 1e100 ? widest : 1
  let sum = 0
  for (const score of scores) sum += score / scale
  const mean = sum / scores.length
  let squares = 0
  for (const score of scores) squares += (score / scale - mean) ** 2
  return { mean, std: Math.sqrt(squares / (scores.length - 1)), scale }
}

/** Unlike `Math.min(...scores)`, works for a large group too: a call accepts a limited number of arguments. */
function smallest(scores: readonly number[]): number {
  return scores.reduce((least, score) => Math.min(least, score), Number.POSITIVE_INFINITY)
}

function largest(scores: readonly number[]): number {
  return scores.reduce((most, score) => Math.max(most, score), Number.NEGATIVE_INFINITY)
}
