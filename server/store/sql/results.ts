import {
  RESULT_FIELDS,
  type ResultFields,
  ROW_FIELDS,
  type RowFields,
  snakeCase,
  withFields,
} from '../../contract/sample-fields.ts'
import type { SampleFailureReason } from '../../contract/sample-reason.ts'
import type { FieldColumns, PartRewards, Result, SampleStatus } from '../../contract/trainer.ts'
import type { Database } from '../database.ts'
import { selectFields } from '../sample-columns.ts'

export interface ResultRow extends RowFields {
  idx: number
  uid: string
  status: number
  reason: SampleFailureReason | null
  score: number | null
  raw_score: number | null
  substituted: boolean
  reward_extra: Record<string, unknown> | null
  verdict: string | null
  extracted: string | null
  rewards: PartRewards | null
  queue_ms: number | null
  score_ms: number | null
  attempts: number
  server_name: string | null
  worker_id: number | null
  /** True if the sample is pending and a worker has claimed it. */
  held: boolean
}

/** The columns of a ResultRow that come from sample s. */
export const STORED_RESULT_COLUMNS = `s.idx, s.status, s.reason, s.score, s.raw_score, s.substituted, s.reward_extra,
  s.verdict, s.extracted, s.rewards, ${selectFields(ROW_FIELDS, 's.')}, s.queue_ms, s.score_ms, s.attempts, s.worker_id`

/** A sample's own columns. Uid, server name and `held` come from one query each for all samples. */
type SampleColumns = Omit<ResultRow, 'uid' | 'server_name' | 'held'> & {
  group_no: number
  server_id: number | null
}

/** The index of the token that gets the reward (the response's last one), or null if the length is 0 or unknown. */
export function positionOf(responseLength: number | null): number | null {
  return responseLength === null || responseLength === 0 ? null : responseLength - 1
}

export function statusOf(row: { status: number; held: boolean }): SampleStatus {
  if (row.status === 2) return 'scored'
  if (row.status === 3) return 'failed'
  return row.held || row.status === 1 ? 'running' : 'queued'
}

export function toResult(row: ResultRow): Result {
  const result: Omit<Result, keyof ResultFields> = {
    index: row.idx,
    uid: row.uid,
    status: statusOf(row),
    reason: row.reason,
    score: row.score,
    rawScore: row.raw_score,
    substituted: row.substituted,
    rewardExtraInfo: row.reward_extra ?? {},
    verdict: row.verdict,
    extracted: row.extracted,
    rewards: row.rewards,
    position: positionOf(row.responseLength),
    queueMs: row.queue_ms,
    scoreMs: row.score_ms,
    attempts: row.attempts,
    serverName: row.server_name,
    workerId: row.worker_id === null ? null : `w${row.worker_id}`,
  }
  return withFields(result, row, RESULT_FIELDS)
}

/** A completed group; `received` is its number of samples. */
export interface CompletedGroup {
  no: number
  uid: string
  seq: number
  completed_at: Date
  received: number
}

/**
 * Completed groups after the cursor `after`, in order of completion, until the groups have at least `samples` samples
 * together.
 */
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

/** The number of samples delivered up to the cursor `after`. */
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

export async function samplesOfGroups(
  db: Database,
  batchId: number,
  groups: { no: number; uid: string }[],
): Promise<(ResultRow & { group_no: number })[]> {
  const nos = groups.map((g) => g.no)
  // One pass over the batch's rows takes 2 ms for 8,192 samples. An index by group would slow down every insert. One
  // pass per group costs more as soon as several groups are delivered together, because appends may scatter the members
  // of a group.
  const rows = await db.rows<SampleColumns>(
    'samples-of-groups',
    `select ${STORED_RESULT_COLUMNS}, s.group_no, s.server_id from sample s
     where batch_id = $1 and group_no = any($2::int[]) order by batch_id, idx`,
    [batchId, nos],
  )
  const uids = new Map(groups.map((g) => [g.no, g.uid]))
  return complete(db, batchId, rows, uids)
}

export interface GroupOfPage {
  no: number
  uid: string
  /** The group's place in the order of completion; null if it has not completed. */
  seq: number | null
  /** In order of the group's members; null before the roll-up. */
  advantages: (number | null)[] | null
}

export interface SampleColumnLists extends FieldColumns {
  idx: number[]
  group_no: number[]
  /** As in the table `sample`: 2 means scored. */
  stored_status: number[]
  uid: string[]
  status: SampleStatus[]
  reason: (SampleFailureReason | null)[]
  score: (number | null)[]
  raw_score: (number | null)[]
  substituted: boolean[]
  reward_extra: (Record<string, unknown> | null)[]
  verdict: (string | null)[]
  extracted: (string | null)[]
  rewards: (PartRewards | null)[]
  response_length: (number | null)[]
  groups: Map<number, GroupOfPage>
}

const FIELD_COLUMNS = RESULT_FIELDS.map((name) => `, ${snakeCase(name)}`)
const FIELD_LISTS = RESULT_FIELDS.map(
  (name) => `, '${name}', coalesce(json_agg(${snakeCase(name)}), '[]')`,
)

const MAX_INDEX = 2_147_483_647

/**
 * The samples of a batch in input order, as columns that Postgres assembles. For 8,192 samples with nine columns,
 * parsing one JSON text takes 10 ms, while reading rows takes 70 ms of the server's event loop. `tokenScores` adds
 * token scores, which may take 120 kB per sample.
 */
export async function sampleColumns(
  db: Database,
  batchId: number,
  { offset, limit, tokenScores }: { offset: number; limit: number; tokenScores: boolean },
): Promise<SampleColumnLists> {
  const [row] = await db.rows<{
    c: Omit<SampleColumnLists, 'uid' | 'status' | 'stored_status' | 'groups'> & { status: number[] }
  }>(
    'sample-columns',
    `select json_build_object('idx', coalesce(json_agg(idx), '[]'), 'group_no', coalesce(json_agg(group_no), '[]'),
       'status', coalesce(json_agg(status), '[]'), 'reason', coalesce(json_agg(reason), '[]'),
       'score', coalesce(json_agg(score), '[]'), 'raw_score', coalesce(json_agg(raw_score), '[]'),
       'substituted', coalesce(json_agg(substituted), '[]'), 'reward_extra', coalesce(json_agg(reward_extra), '[]'),
       'verdict', coalesce(json_agg(verdict), '[]'), 'extracted', coalesce(json_agg(extracted), '[]'),
       'rewards', coalesce(json_agg(rewards), '[]'),
       'response_length', coalesce(json_agg(response_length), '[]')${FIELD_LISTS.join('')}) as c
     from (select idx, group_no, status, reason, score, raw_score, substituted, reward_extra, verdict, extracted,
             case when $4 or rewards->'tokens' is null then rewards
                  else json_build_object('turns', rewards->'turns', 'spans', rewards->'spans') end as rewards,
             response_length${FIELD_COLUMNS.join('')}
           from sample where batch_id = $1 and idx >= $2 and idx < $3 order by batch_id, idx) s`,
    // Clamped to Postgres's largest integer, which exceeds any index.
    [batchId, Math.min(offset, MAX_INDEX), Math.min(offset + limit, MAX_INDEX), tokenScores],
  )
  const { group_no, status, ...columns } = row!.c
  const [groups, claims] = await Promise.all([
    groupsOf(db, batchId, group_no),
    status.some((s) => s < 2) ? claimsOf(db, batchId) : [],
  ])
  return {
    ...columns,
    group_no,
    groups,
    stored_status: status,
    uid: group_no.map((no) => groups.get(no)?.uid ?? ''),
    status: status.map((s, i) =>
      statusOf({ status: s, held: s < 2 && isHeld(columns.idx[i] as number, claims) }),
    ),
  }
}

/** Samples of a batch by index, in one round trip, because a caller waits for each sample. */
export async function samplesByIndex(
  db: Database,
  batchId: number,
  indexes: number[],
): Promise<ResultRow[]> {
  return db.rows<ResultRow>(
    'samples-by-index',
    `select ${STORED_RESULT_COLUMNS}, (select uid from sample_group g where g.batch_id = s.batch_id and g.no = s.group_no) as uid,
       (select name from server v where v.id = s.server_id) as server_name, false as held
     from sample s where batch_id = $1 and idx = any($2::int[])`,
    [batchId, indexes],
  )
}

/** For each group, the number of its members with an index below `idx`. */
export async function membersBefore(
  db: Database,
  batchId: number,
  idx: number,
): Promise<Map<number, number>> {
  if (idx === 0) return new Map()
  const rows = await db.rows<{ group_no: number; n: number }>(
    'members-before',
    `select group_no, count(*)::int as n from sample where batch_id = $1 and idx < $2 group by 1`,
    [batchId, Math.min(idx, MAX_INDEX)],
  )
  return new Map(rows.map((row) => [row.group_no, row.n]))
}

async function groupsOf(
  db: Database,
  batchId: number,
  nos: number[],
): Promise<Map<number, GroupOfPage>> {
  if (nos.length === 0) return new Map()
  let lo = nos[0] as number
  let hi = lo
  for (const no of nos) {
    if (no < lo) lo = no
    if (no > hi) hi = no
  }
  const [row] = await db.rows<{
    c: {
      no: number[]
      uid: string[]
      seq: (number | null)[]
      advantages: GroupOfPage['advantages'][]
    }
  }>(
    'groups-of-page',
    // The groups are read as one JSON text, because node-postgres reads an array element by element.
    `select json_build_object('no', coalesce(json_agg(no), '[]'), 'uid', coalesce(json_agg(uid), '[]'),
       'seq', coalesce(json_agg(seq), '[]'), 'advantages', coalesce(json_agg(advantages), '[]')) as c
     from sample_group where batch_id = $1 and no between $2 and $3`,
    [batchId, lo, hi],
  )
  const { no, uid, seq, advantages } = row!.c
  return new Map(
    no.map((n, at) => [
      n,
      {
        no: n,
        uid: uid[at] as string,
        seq: seq[at] as number | null,
        advantages: advantages[at] as GroupOfPage['advantages'],
      },
    ]),
  )
}

async function complete(
  db: Database,
  batchId: number,
  rows: SampleColumns[],
  uids: Map<number, string>,
): Promise<(ResultRow & { group_no: number })[]> {
  const [names, claims] = await Promise.all([
    rows.some((row) => row.server_id !== null) ? serverNames(db) : new Map<number, string>(),
    rows.some((row) => row.status < 2) ? claimsOf(db, batchId) : [],
  ])
  for (const row of rows as (SampleColumns & ResultRow)[]) {
    row.uid = uids.get(row.group_no) ?? ''
    row.server_name = row.server_id === null ? null : (names.get(row.server_id) ?? null)
    row.held = row.status < 2 && isHeld(row.idx, claims)
  }
  return rows as (SampleColumns & ResultRow)[]
}

async function serverNames(db: Database): Promise<Map<number, string>> {
  const rows = await db.rows<{ id: number; name: string }>(
    'server-names',
    'select id, name from server',
  )
  return new Map(rows.map((row) => [row.id, row.name]))
}

function isHeld(idx: number, claims: { first_idx: number; last_idx: number }[]): boolean {
  return claims.some((c) => idx >= c.first_idx && idx <= c.last_idx)
}

async function claimsOf(
  db: Database,
  batchId: number,
): Promise<{ first_idx: number; last_idx: number }[]> {
  return db.rows('claims-of', 'select first_idx, last_idx from claim where batch_id = $1', [
    batchId,
  ])
}

export async function lastDetail(
  db: Database,
  batchId: number,
  index: number,
): Promise<string | null> {
  const [row] = await db.rows<{ detail: string | null }>(
    'last-detail',
    `select detail from attempt where batch_id = $1 and idx = $2 and detail is not null
     order by attempt desc, id desc limit 1`,
    [batchId, index],
  )
  return row?.detail ?? null
}
