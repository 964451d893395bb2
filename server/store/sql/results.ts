import type { SampleFailureReason } from '../../wire/sample-reason.ts'
import type { Result, SampleStatus } from '../../wire/trainer.ts'
import type { Database } from '../database.ts'

/** What a Result is made of; `running` is what a worker holds and has not ended. */
export interface ResultRow {
  idx: number
  uid: string
  status: number
  reason: SampleFailureReason | null
  score: number | null
  raw_score: number | null
  substituted: boolean
  reward_extra: Record<string, unknown> | null
  response_length: number | null
  queue_ms: number | null
  score_ms: number | null
  attempts: number
  server_name: string | null
  worker_id: number | null
  held: boolean
}

/** Columns of a ResultRow, from sample s, sample_group g and server v. */
export const RESULT_COLUMNS = `s.idx, g.uid, s.status, s.reason, s.score, s.raw_score, s.substituted, s.reward_extra,
  s.response_length, s.queue_ms, s.score_ms, s.attempts, v.name as server_name, s.worker_id,
  s.status < 2 and exists (select 1 from claim c where c.batch_id = s.batch_id
    and s.idx between c.first_idx and c.last_idx) as held`
export const RESULT_JOINS = `join sample_group g on g.batch_id = s.batch_id and g.no = s.group_no
  left join server v on v.id = s.server_id`

/** Where the reward goes in the token row: the response's last token; null when there is none to put it on. */
export function positionOf(responseLength: number | null): number | null {
  return responseLength === null || responseLength === 0 ? null : responseLength - 1
}

export function statusOf(row: { status: number; held: boolean }): SampleStatus {
  if (row.status === 2) return 'scored'
  if (row.status === 3) return 'failed'
  return row.held ? 'running' : 'queued'
}

/** A row as the contract shows it. */
export function toResult(row: ResultRow): Result {
  return {
    index: row.idx,
    uid: row.uid,
    status: statusOf(row),
    reason: row.reason,
    score: row.score,
    rawScore: row.raw_score,
    substituted: row.substituted,
    rewardExtraInfo: row.reward_extra ?? {},
    position: positionOf(row.response_length),
    queueMs: row.queue_ms,
    scoreMs: row.score_ms,
    attempts: row.attempts,
    serverName: row.server_name,
    workerId: row.worker_id === null ? null : `w${row.worker_id}`,
  }
}

/** A completed group's number, and how many samples it has. */
export interface CompletedGroup {
  no: number
  uid: string
  seq: number
  completed_at: Date
  received: number
}

/** Completed groups after `after` in order of completion, until at least `samples` samples are in hand. */
export async function completedGroups(
  db: Database,
  batchId: number,
  after: number,
  samples: number,
): Promise<CompletedGroup[]> {
  return db.rows<CompletedGroup>(
    'groups-completed',
    `select no, uid, seq, completed_at, received from (
       select no, uid, seq, completed_at, received,
              coalesce(sum(received) over (order by seq rows between unbounded preceding and 1 preceding), 0) as before
       from sample_group where batch_id = $1 and seq > $2) t
     where before < $3 order by seq`,
    [batchId, after, samples],
  )
}

/** Samples of the batch in groups that a cursor at `after` has been given. */
export async function samplesDelivered(
  db: Database,
  batchId: number,
  after: number,
): Promise<number> {
  if (after === 0) return 0
  const [row] = await db.rows<{ n: number }>(
    'samples-delivered',
    'select coalesce(sum(received), 0)::int as n from sample_group where batch_id = $1 and seq <= $2',
    [batchId, after],
  )
  return row!.n
}

/** The samples of whole groups, by group number and index. */
export async function samplesOfGroups(
  db: Database,
  batchId: number,
  groupNos: number[],
): Promise<(ResultRow & { group_no: number })[]> {
  return db.rows(
    'samples-of-groups',
    `select s.group_no, ${RESULT_COLUMNS} from sample s ${RESULT_JOINS}
     where s.batch_id = $1 and s.group_no = any($2::int[]) order by s.group_no, s.idx`,
    [batchId, groupNos],
  )
}

/** The samples of a batch in input order. */
export async function samplesInOrder(
  db: Database,
  batchId: number,
  offset: number,
  limit: number,
): Promise<ResultRow[]> {
  return db.rows(
    'samples-in-order',
    `select ${RESULT_COLUMNS} from sample s ${RESULT_JOINS}
     where s.batch_id = $1 and s.idx >= $2 and s.idx < $3 order by s.idx`,
    [batchId, offset, offset + limit],
  )
}

/** Given samples of a batch, by index. */
export async function samplesByIndex(
  db: Database,
  batchId: number,
  indexes: number[],
): Promise<ResultRow[]> {
  return db.rows(
    'samples-by-index',
    `select ${RESULT_COLUMNS} from sample s ${RESULT_JOINS}
     where s.batch_id = $1 and s.idx = any($2::int[])`,
    [batchId, indexes],
  )
}
