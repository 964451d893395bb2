import type { ResolvedReward } from '../../contract/resolved-reward.ts'
import type { TraceContext } from '../../trace-context.ts'
import type { Database } from '../database.ts'

export interface TracedBatch {
  id: number
  run: string
  step: number
  split: string
  status: string
  reward: ResolvedReward
  rewardName: string
  samples: number
  scored: number
  failed: number
  groups: number
  mean: number | null
  startedAtMs: number
  endedAtMs: number
  /** Time since the end of the batch, ms. */
  endedAgoMs: number
  trace: TraceContext
}

export interface TracedGroup {
  no: number
  uid: string
  received: number
  failed: number
  mean: number | null
  signal: string | null
  /** Null if the batch ended before the group was complete. */
  completedAtMs: number | null
}

export interface TracedAttempt {
  idx: number
  groupNo: number
  attempt: number
  /** Identifies the attempt within its sample. */
  call: number | string
  startedAtMs: number
  waitedMs: number
  serviceMs: number
  outcome: string
  reason: string | null
  status: number | null
  detail: string | null
  isHedge: boolean
  workerId: number | null
  /**
   * The sample's score. Only the last successful attempt has it. If no attempt succeeded, the last attempt has the
   * score that the failure policy set, if any.
   */
  score: number | null
  verdict: string | null
  serverName: string | null
  serverUrl: string | null
  model: string | null
  engine: string | null
  kind: string | null
}

const MS = (column: string) => `extract(epoch from ${column})::float8 * 1000`

/** Ended batches to export as traces. A batch is left out until its roll-up, which holds the mean, is stored. */
export function batchesToTrace(db: Database, limit: number): Promise<TracedBatch[]> {
  return db.rows<TracedBatch>(
    'batches-to-trace',
    `select batch.id, run.name as run, step, split, status, reward, reward_name as "rewardName", samples, scored, failed,
            groups, mean, trace, ${MS('submitted_at')} as "startedAtMs", ${MS('completed_at')} as "endedAtMs",
            ${MS('(clock_timestamp() - completed_at)')} as "endedAgoMs"
     from batch join run on run.id = run_id
     where trace_due and rolled_up and completed_at is not null order by batch.id limit $1`,
    [limit],
  )
}

export async function endTrace(db: Database, batchId: number): Promise<void> {
  await db.rows('end-trace', 'update batch set trace_due = null where id = $1', [batchId])
}

export function tracedGroups(
  db: Database,
  batchId: number,
  from: number,
  limit: number,
): Promise<TracedGroup[]> {
  return db.rows<TracedGroup>(
    'traced-groups',
    `select no, uid, received, failed, mean, signal, ${MS('completed_at')} as "completedAtMs"
     from sample_group where batch_id = $1 and no >= $2 order by no limit $3`,
    [batchId, from, limit],
  )
}

/**
 * The attempts of the samples with indexes in [from, to). A sample that was scored on its first attempt has no row in
 * `attempt`: that attempt is read from the sample's row.
 */
export function tracedAttempts(
  db: Database,
  batchId: number,
  from: number,
  to: number,
): Promise<TracedAttempt[]> {
  return db.rows<TracedAttempt>(
    'traced-attempts',
    `with stored as (
       select * from attempt where batch_id = $1 and idx >= $2 and idx < $3
     ), ledger as (
       select s.idx, a.id, a.attempt, coalesce(a.call_no::text, 'a' || a.id) as call, a.started_at,
         a.queue_ms + a.backoff_ms as waited_ms, a.service_ms, a.outcome, a.reason, a.status_code, a.detail,
         a.hedge_of is not null as is_hedge, a.worker_id, a.server_id,
         row_number() over (partition by a.idx
           order by a.outcome = 'ok' desc, a.started_at desc, a.id desc) = 1 as is_last
       from sample s join stored a on a.idx = s.idx
       where s.batch_id = $1 and s.idx >= $2 and s.idx < $3
       union all
       select s.idx, 0, 1, '1', s.dispatched_at, 0, s.score_ms, case s.status when 2 then 'ok' else 'fault' end,
         s.reason, null, null, false, s.worker_id, s.server_id, true
       from sample s
       where s.batch_id = $1 and s.idx >= $2 and s.idx < $3 and s.attempts = 1 and s.dispatched_at is not null
         and not exists (select 1 from stored a where a.idx = s.idx)
     )
     select l.idx, s.group_no as "groupNo", l.attempt, l.call, ${MS('l.started_at')} as "startedAtMs",
       l.waited_ms::float8 as "waitedMs", coalesce(l.service_ms, 0)::float8 as "serviceMs", l.outcome, l.reason,
       l.status_code as status, l.detail, l.is_hedge as "isHedge", l.worker_id as "workerId",
       case when l.is_last then s.score end as score, case when l.is_last then s.verdict end as verdict,
       v.name as "serverName", v.url as "serverUrl", v.model, v.engine, v.kind
     from ledger l join sample s on s.batch_id = $1 and s.idx = l.idx left join server v on v.id = l.server_id
     order by l.idx, l.started_at, l.id`,
    [batchId, from, to],
  )
}
