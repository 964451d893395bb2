import type { GroupSignal } from '../contract/group-signal.ts'
import type { ResolvedReward } from '../contract/resolved-reward.ts'
import { type GroupStatistics, groupStatistics, grpoAdvantages, signalOf } from './advantages.ts'

/** A member of a completed group, as its sample is stored. */
export interface GroupMember {
  /** It was scored; false: it failed. */
  scored: boolean
  /** Null, or what a failure policy put there where `substituted` says so. */
  score: number | null
  /** A failure policy put its score there, or took it away. */
  substituted: boolean
}

/** What is said of a completed group. */
export interface GroupReport extends GroupStatistics {
  /** Members whose score a failure policy put there or took away. */
  substituted: number
  signal: GroupSignal
  /** In the order of the members. */
  advantages: (number | null)[]
}

/**
 * Statistics, class and advantages of a completed group, from the members in order of their index. Only members that
 * were scored, and kept that score, count; the others move nothing.
 *
 * A member that does not count has no advantage (`null`: to be masked), with one exception: under `group_mean` its score
 * is the mean of those that count, so that its advantage is 0 whatever their deviation. A `constant` has none: measured
 * against siblings that agree (deviation 0, epsilon 1e-6) it would be a million.
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
