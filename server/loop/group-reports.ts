import { signalOf } from '../rewards/advantages.ts'
import { type GroupMember, type GroupReport, groupReport } from '../rewards/group-report.ts'
import type { Database } from '../store/database.ts'
import { alikeGroups } from '../store/sql/group-statistics.ts'
import { type GroupSignalCounts, noSignals } from '../wire/group-signal.ts'
import type { ResolvedReward } from '../wire/resolved-reward.ts'

/** A sample's row, as far as its group's report needs it. */
export interface MemberRow {
  status: number
  score: number | null
  substituted: boolean
}

/** What the report of a group is made of. */
export function memberOf(row: MemberRow): GroupMember {
  return { scored: row.status === 2, score: row.score, substituted: row.substituted }
}

/** The reports of groups whose members are given in order of their index, in lists of one length. */
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

/** How many of a batch's completed groups are of each class, before its roll-up says so. */
export async function countSignals(db: Database, batchId: number): Promise<GroupSignalCounts> {
  const counts = noSignals()
  for (const { groups, scored, score } of await alikeGroups(db, batchId)) {
    const differ = scored > 0 && score === null
    const min = differ ? 0 : score
    counts[signalOf({ members: 1, scored, min, max: differ ? 1 : score })] += groups
  }
  return counts
}
