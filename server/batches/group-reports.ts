import { type GroupSignalCounts, noSignals, withoutCorrectness } from '../contract/group-signal.ts'
import {
  isByModelsAlone,
  type ResolvedReward,
  type ScoredBy,
  showsCorrectness,
} from '../contract/resolved-reward.ts'
import { signalOf } from '../rewards/advantages.ts'
import { type GroupMember, type GroupReport, groupReport } from '../rewards/group-report.ts'
import type { Database } from '../store/database.ts'
import { scoreStatistics } from '../store/sql/batches.ts'
import { alikeGroups } from '../store/sql/group-statistics.ts'

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

/** True if the scores of a batch do not show which answers are correct ({@link showsCorrectness}). */
export async function lacksCorrectness(
  db: Database,
  batchId: number,
  reward: ScoredBy,
): Promise<boolean> {
  return isByModelsAlone(reward) && !showsCorrectness(reward, await scoreStatistics(db, batchId))
}

/** Counts a batch's completed groups by signal before its roll-up exists. */
export async function countSignals(
  db: Database,
  batchId: number,
  reward: ScoredBy,
): Promise<GroupSignalCounts> {
  const counts = noSignals()
  const alike = await alikeGroups(db, batchId)
  const isClear = showsCorrectness(reward, {
    min: alike.reduce((least, { low }) => Math.min(least, low ?? least), Number.POSITIVE_INFINITY),
    max: alike.reduce((most, { high }) => Math.max(most, high ?? most), Number.NEGATIVE_INFINITY),
  })
  for (const { groups, scored, score } of alike) {
    const differ = scored > 0 && score === null
    const min = differ ? 0 : score
    const signal = signalOf({ members: 1, scored, min, max: differ ? 1 : score })
    counts[isClear ? signal : withoutCorrectness(signal)] += groups
  }
  return counts
}
