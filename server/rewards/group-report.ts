import type { GroupSignal } from '../contract/group-signal.ts'
import type { ResolvedReward } from '../contract/resolved-reward.ts'
import { type GroupStatistics, groupStatistics, grpoAdvantages, signalOf } from './advantages.ts'

export interface GroupMember {
  /** Whether the member's scorer returned a score; false if the member failed. */
  scored: boolean
  /** The score, which a failure policy may have set; null if there is none. */
  score: number | null
  /** Whether a failure policy set or removed the member's score. */
  substituted: boolean
}

export interface GroupReport extends GroupStatistics {
  substituted: number
  signal: GroupSignal
  /** In the order of the members. */
  advantages: (number | null)[]
}

/**
 * Computes statistics, class and advantages of a completed group, from the members in order of their index. Members
 * that failed, or whose score a failure policy set or removed, do not count in the statistics or the class.
 *
 * A member that does not count has no advantage (`null`: the trainer masks it), except that the policy `group_mean`
 * gives it the advantage 0. A member whose score the policy `constant` set has no advantage, because among members with
 * equal scores (deviation 0, epsilon 1e-6) a difference of 1 would give an advantage of a million.
 */
export function groupReport(
  members: readonly GroupMember[],
  reward: Pick<ResolvedReward, 'onFailure' | 'advantages'>,
): GroupReport {
  const scores = members.map((m) => (m.scored && !m.substituted ? m.score : null))
  const statistics = groupStatistics(scores)
  const advantages = grpoAdvantages(scores, reward.advantages)
  let failed = 0
  let substituted = 0
  const neutral = reward.onFailure?.policy === 'group_mean'
  for (const [at, member] of members.entries()) {
    if (!member.scored) failed++
    if (!member.substituted) continue
    substituted++
    if (neutral && member.score !== null) advantages[at] = 0
  }
  return { ...statistics, failed, substituted, signal: signalOf(statistics), advantages }
}
