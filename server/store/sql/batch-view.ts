import { type AttemptDto, MAX_BREAKDOWN_ROWS } from '../../contract/pages.ts'
import type { ResolvedReward } from '../../contract/resolved-reward.ts'
import { DETAIL_FIELDS, type DetailFields } from '../../contract/sample-fields.ts'
import type { Database } from '../database.ts'
import type { RowOf } from '../row-of.ts'
import { selectFields } from '../sample-columns.ts'
import { meanOf } from './moments.ts'
import { type ResultRow, STORED_RESULT_COLUMNS } from './results.ts'

/** The columns of a ResultRow, from sample s, sample_group g and server v. */
export const JOINED_RESULT_COLUMNS = `${STORED_RESULT_COLUMNS}, g.uid, v.name as server_name,
  s.status < 2 and exists (select 1 from claim c where c.batch_id = s.batch_id
    and s.idx between c.first_idx and c.last_idx) as held`
const RESULT_JOINS = `join sample_group g on g.batch_id = s.batch_id and g.no = s.group_no
  left join server v on v.id = s.server_id`

export interface BatchBreakdown {
  data_sources:
    | { dataSource: string; samples: number; scored: number; failed: number; mean: number | null }[]
    | null
  failures: { reason: string; count: number }[] | null
  servers:
    | { serverName: string; samples: number; p50Ms: number | null; p99Ms: number | null }[]
    | null
  queue_p50: number | null
  queue_p95: number | null
  score_p50: number | null
  score_p95: number | null
}

export async function batchBreakdown(db: Database, id: number): Promise<BatchBreakdown> {
  const [row] = await db.rows<BatchBreakdown>(
    'batch-breakdown',
    `with s as materialized (
       select data_source, status, reason, score, queue_ms, score_ms, server_id from sample where batch_id = $1)
     select
       (select json_agg(d) from (
          select data_source as "dataSource", count(*)::int as samples,
                 (count(*) filter (where status = 2))::int as scored,
                 (count(*) filter (where status = 3))::int as failed,
                 ${meanOf('score', 'status = 2')} as mean
          from s group by 1 order by 2 desc, 1 limit ${MAX_BREAKDOWN_ROWS}) d) as data_sources,
       (select json_agg(f) from (
          select reason, count(*)::int as count from s where status = 3 group by 1 order by 2 desc) f) as failures,
       (select json_agg(v) from (
          select server.name as "serverName", count(*)::int as samples,
                 percentile_cont(0.5) within group (order by score_ms) as "p50Ms",
                 percentile_cont(0.99) within group (order by score_ms) as "p99Ms"
          from s join server on server.id = s.server_id group by 1 order by 2 desc limit ${MAX_BREAKDOWN_ROWS}) v) as servers,
       q.p[1] as queue_p50, q.p[2] as queue_p95, q.r[1] as score_p50, q.r[2] as score_p95
     from (select percentile_cont(array[0.5, 0.95]) within group (order by queue_ms) as p,
                  percentile_cont(array[0.5, 0.95]) within group (order by score_ms) as r
           from s where status >= 2 and queue_ms is not null) q`,
    [id],
  )
  return row!
}

/** SQL condition of samples in statistics. A scored sample has no score if `drop_group` dropped its group. */
const COUNTS = 'status = 2 and score is not null'

/** Distinct scores with their counts, at most `limit` + 1. */
export async function distinctScores(
  db: Database,
  id: number,
  limit: number,
): Promise<{ score: number; count: number }[]> {
  return db.rows(
    'distinct-scores',
    `select score, count(*)::int as count from sample where batch_id = $1 and ${COUNTS}
     group by 1 order by 1 limit $2`,
    [id, limit + 1],
  )
}

/** Counts of scores in `bins` equal bins between the lowest and highest; the last bin is closed. */
export async function scoreHistogram(
  db: Database,
  id: number,
  bins: number,
): Promise<{ bin: number; count: number; lo: number; hi: number }[]> {
  return db.rows(
    'score-histogram',
    `with r as materialized (select min(score) as lo, max(score) as hi from sample where batch_id = $1 and ${COUNTS})
     select least($2, width_bucket(s.score, r.lo, r.hi, $2))::int as bin, count(*)::int as count, r.lo, r.hi
     from sample s, r where s.batch_id = $1 and ${COUNTS} and r.hi > r.lo group by 1, 3, 4 order by 1`,
    [id, bins],
  )
}

/** Completion times of the groups, thinned to `points` by completion number; the last one is always included. */
export async function completionCurve(
  db: Database,
  id: number,
  points: number,
): Promise<{ seq: number; completed_at: Date }[]> {
  return db.rows(
    'completion-curve',
    `select seq, completed_at from sample_group, (select groups_completed as n from batch where id = $1) b
     where batch_id = $1 and seq is not null and (b.n <= $2 or seq % ceil(b.n / $2::float8)::int = 0 or seq = b.n)
     order by seq`,
    [id, points],
  )
}

export interface GroupRow {
  no: number
  uid: string
  seq: number
  completed_at: Date
  received: number
  failed: number
}

export async function groupsPage(
  db: Database,
  id: number,
  after: number,
  limit: number,
  latest: boolean,
): Promise<GroupRow[]> {
  return latest
    ? db.rows(
        'groups-latest',
        `select no, uid, seq, completed_at, received, failed from sample_group
         where batch_id = $1 and seq is not null and ($2 = 0 or seq < $2) order by seq desc limit $3`,
        [id, after, limit],
      )
    : db.rows(
        'groups-page',
        `select no, uid, seq, completed_at, received, failed from sample_group
         where batch_id = $1 and seq > $2 order by seq limit $3`,
        [id, after, limit],
      )
}

export async function groupMembers(
  db: Database,
  id: number,
  groupNos: number[],
): Promise<
  {
    group_no: number
    idx: number
    status: number
    score: number | null
    substituted: boolean
    queue_ms: number | null
    score_ms: number | null
    ended_at: Date | null
  }[]
> {
  return db.rows(
    'group-members',
    `select group_no, idx, status, score, substituted, queue_ms, score_ms, ended_at from sample
     where batch_id = $1 and group_no = any($2::int[]) order by group_no, idx`,
    [id, groupNos],
  )
}

export interface SampleRow extends ResultRow {
  batch_id: number
  run: string
  step: number
  split: 'train' | 'val'
  rescored_from: number | null
  data_source: string
  ended_at: Date | null
}

export interface SampleDetailRow extends SampleRow, DetailFields {
  group_no: number
  group_done: boolean
  reward: ResolvedReward
  reward_name: string
  submitted_at: Date
  /** Set if retention removed the texts of the sample's batch. */
  texts_removed_at: Date | null
  dispatched_at: Date | null
  /** Key of the prompt in hexadecimal, or null if the table `prompt` has no row for it. */
  prompt_key: string | null
  prompt: string | null
  response: string | null
  ground_truth: string | null
  extra_info: string | null
  encoding: number | null
}

export async function sampleDetail(
  db: Database,
  batchId: number,
  idx: number,
): Promise<SampleDetailRow | undefined> {
  const [row] = await db.rows<SampleDetailRow>(
    'sample-detail',
    `select ${JOINED_RESULT_COLUMNS}, s.batch_id, s.group_no, r.name as run, b.step, b.split, b.rescored_from, s.data_source, s.ended_at,
       g.seq is not null as group_done, b.reward, b.reward_name, b.submitted_at, b.texts_removed_at, s.dispatched_at,
       t.prompt, t.response, t.ground_truth, t.extra_info, t.encoding, ${selectFields(DETAIL_FIELDS, 's.')},
       (select encode(p.key, 'hex') from prompt p
        where p.run_id = b.run_id and p.split = b.split and p.key = g.prompt_key) as prompt_key
     from sample s join batch b on b.id = s.batch_id join run r on r.id = b.run_id ${RESULT_JOINS}
     left join sample_text t on t.bucket = b.text_bucket and t.batch_id = s.batch_id and t.idx = s.idx
     where s.batch_id = $1 and s.idx = $2`,
    [batchId, idx],
  )
  return row
}

export async function attemptsOf(
  db: Database,
  batchId: number,
  idx: number,
): Promise<RowOf<AttemptDto, 'startedAt'>[]> {
  return db.rows(
    'attempts-of',
    `select a.attempt, v.name as "serverName", 'w' || a.worker_id as "workerId", a.started_at as "startedAt",
            a.queue_ms as "queueMs", a.backoff_ms as "backoffMs", a.service_ms as "serviceMs", a.outcome, a.reason,
            a.status_code as "statusCode", a.detail
     from attempt a left join server v on v.id = a.server_id
     where a.batch_id = $1 and a.idx = $2 order by a.started_at, a.id`,
    [batchId, idx],
  )
}
