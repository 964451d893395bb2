import { type GroupSignalCounts, noSignals, withoutSpread } from '../contract/group-signal.ts'
import { isByModelsAlone, type ResolvedReward, type ScoredBy } from '../contract/resolved-reward.ts'
import { signalOf } from '../rewards/advantages.ts'
import { type GroupMember, type GroupReport, groupReport } from '../rewards/group-report.ts'
import type { Database } from '../store/database.ts'
import { scoreStatistics } from '../store/sql/batches.ts'
import { alikeGroups } from '../store/sql/group-statistics.ts'

/** The columns of a sample that its group's report needs. */
export interface MemberRow {
  status: number
  score: number | null
  substituted: boolean
}

export function memberOf(row: MemberRow): GroupMember {
  return { scored: row.status === 2, score: row.score, substituted: row.substituted }
}

/** Returns reports by group number. `members` are samples in order of their index, as columns of equal length. */
export function reportsOf(
  members: {
    group_no: readonly number[]
    status: readonly number[]
    score: readonly (number | null)[]
    substituted: readonly boolean[]
  },
  reward: Pick<ResolvedReward, 'onFailure' | 'advantages'>,
): Map<number, GroupReport> {
  const groups = new Map<number, GroupMember[]>()
  for (const [at, no] of members.group_no.entries()) {
    const member: GroupMember = {
      scored: members.status[at] === 2,
      score: members.score[at] as number | null,
      substituted: members.substituted[at] as boolean,
    }
    const list = groups.get(no)
    if (list) list.push(member)
    else groups.set(no, [member])
  }
  const reports = new Map<number, GroupReport>()
  for (const [no, list] of groups) reports.set(no, groupReport(list, reward))
  return reports
}

/**
 * Returns whether only reward models scored the batch and all scores are equal. Such a batch has no correct or
 * incorrect groups.
 */
export async function lacksSpread(
  db: Database,
  batchId: number,
  reward: ScoredBy,
): Promise<boolean> {
  if (!isByModelsAlone(reward)) return false
  const { min, max } = await scoreStatistics(db, batchId)
  return min !== null && min === max
}

/** Counts a batch's completed groups by signal before its roll-up exists. */
export async function countSignals(
  db: Database,
  batchId: number,
  reward: ScoredBy,
): Promise<GroupSignalCounts> {
  const counts = noSignals()
  const alike = await alikeGroups(db, batchId)
  const scores = new Set(alike.filter(({ scored }) => scored > 0).map(({ score }) => score))
  const flat = isByModelsAlone(reward) && scores.size === 1 && !scores.has(null)
  for (const { groups, scored, score } of alike) {
    const differ = scored > 0 && score === null
    const min = differ ? 0 : score
    const signal = signalOf({ members: 1, scored, min, max: differ ? 1 : score })
    counts[flat ? withoutSpread(signal) : signal] += groups
  }
  return counts
}
