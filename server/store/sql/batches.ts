import type { GroupSignalCounts } from '../../contract/group-signal.ts'
import { type ResolvedReward, rewardVersionOf } from '../../contract/resolved-reward.ts'
import type { BatchStatus, BatchSummary } from '../../contract/trainer.ts'
import type { Database } from '../database.ts'
import { args } from './args.ts'
import { deviationOf, meanOf } from './moments.ts'
import { isRescored } from './sample-filter.ts'

/** A batch's row with the columns of its summary; statistics come from the roll-up once the batch has ended. */
export interface BatchRow {
  id: number
  run_id: number
  run: string
  step: number
  split: 'train' | 'val'
  status: BatchStatus
  closed: boolean
  group_size: number | null
  reward: ResolvedReward
  reward_name: string
  priority: number
  samples: number
  scored: number
  failed: number
  groups: number
  groups_completed: number
  retries: number
  submitted_at: Date
  started_at: Date | null
  completed_at: Date | null
  deadline_at: Date | null
  mean: number | null
  std: number | null
  min: number | null
  max: number | null
  group_signals: GroupSignalCounts | null
  rescored_from: number | null
  text_bucket: string
  /** When retention removed the texts, and when it removed the samples and groups; null if they still exist. */
  texts_removed_at: Date | null
  samples_removed_at: Date | null
}

const COLUMNS = `batch.id, run_id, run.name as run, step, split, status, closed, group_size, reward, reward_name, priority,
  samples, scored, failed, groups, groups_completed, retries, submitted_at, started_at, completed_at,
  deadline_at, mean, std, min, max, group_signals, rescored_from, text_bucket::text as text_bucket,
  texts_removed_at, samples_removed_at`

export async function batchById(db: Database, id: number): Promise<BatchRow | undefined> {
  const [row] = await db.rows<BatchRow>(
    'batch-by-id',
    `select ${COLUMNS} from batch join run on run.id = batch.run_id where batch.id = $1`,
    [id],
  )
  return row
}

export async function listBatches(
  db: Database,
  filter: {
    run?: string | undefined
    status?: string | undefined
    split?: string | undefined
    ended?: boolean | undefined
    rescored?: boolean | undefined
    beforeId: number | null
    limit: number
  },
): Promise<BatchRow[]> {
  const where: string[] = []
  const { values, arg } = args()
  if (filter.run !== undefined)
    where.push(`run_id = (select id from run where name = ${arg(filter.run)})`)
  if (filter.status !== undefined) where.push(`status = ${arg(filter.status)}`)
  if (filter.split !== undefined) where.push(`split = ${arg(filter.split)}`)
  if (filter.ended !== undefined)
    where.push(`status ${filter.ended ? 'not in' : 'in'} ('open', 'running')`)
  if (filter.rescored !== undefined) where.push(isRescored(filter.rescored))
  if (filter.beforeId !== null) where.push(`batch.id < ${arg(filter.beforeId)}`)
  return db.adhoc<BatchRow>(
    `select ${COLUMNS} from batch join run on run.id = batch.run_id
     ${where.length > 0 ? `where ${where.join(' and ')}` : ''}
     order by batch.id desc limit ${arg(filter.limit)}`,
    values,
  )
}

export async function liveBatches(db: Database, limit: number): Promise<BatchRow[]> {
  return db.rows<BatchRow>(
    'batches-live',
    `select ${COLUMNS} from batch join run on run.id = batch.run_id
     where status in ('open', 'running') order by batch.id desc limit $1`,
    [limit],
  )
}

/** Mean, standard deviation (n − 1), lowest and highest of the counted scores. */
export async function scoreStatistics(
  db: Database,
  id: number,
): Promise<{ mean: number | null; std: number | null; min: number | null; max: number | null }> {
  const [row] = await db.rows<{
    mean: number | null
    std: number | null
    min: number | null
    max: number | null
  }>(
    'score-statistics',
    `select ${meanOf('score')} as mean, ${deviationOf('score')} as std, min(score) as min, max(score) as max
     from sample where batch_id = $1 and status = 2`,
    [id],
  )
  return row!
}

export async function rollUpEnded(db: Database): Promise<number[]> {
  const rows = await db.rows<{ id: number }>(
    'batches-roll-up',
    `update batch b set mean = s.mean, std = s.std, min = s.min, max = s.max
     from (select id from batch where completed_at is not null and min is null and scored > 0
             -- A batch whose groups were all dropped never gets statistics, so this query includes it only for 10 s
             -- after its end.
             and (reward -> 'onFailure' ->> 'policy' <> 'drop_group' or completed_at > now() - interval '10 seconds')
           limit 20) e,
       lateral (select ${meanOf('score')} as mean, ${deviationOf('score')} as std, min(score) as min, max(score) as max
                from sample where batch_id = e.id and status = 2) s
     where b.id = e.id returning b.id`,
  )
  return rows.map((row) => row.id)
}

export function toSummary(row: BatchRow): BatchSummary {
  return {
    batchId: `b${row.id}`,
    run: row.run,
    step: row.step,
    split: row.split,
    status: row.status,
    samples: row.samples,
    scored: row.scored,
    failed: row.failed,
    groups: row.groups,
    groupsCompleted: row.groups_completed,
    submittedAt: row.submitted_at.toISOString(),
    startedAt: row.started_at?.toISOString() ?? null,
    completedAt: row.completed_at?.toISOString() ?? null,
    mean: row.mean,
    std: row.std,
    min: row.min,
    max: row.max,
    retries: row.retries,
    rewardName: row.reward_name,
    rewardVersion: rewardVersionOf(row.reward),
    groupSignals: row.group_signals,
    rescoredFrom: row.rescored_from === null ? null : `b${row.rescored_from}`,
  }
}

export function hasEnded(status: BatchStatus): boolean {
  return status === 'completed' || status === 'cancelled' || status === 'failed'
}

/** The highest batch id, or 0 if there are no batches. Later batches have higher ids. */
export async function lastBatchId(db: Database): Promise<number> {
  const [row] = await db.rows<{ id: number }>(
    'last-batch-id',
    'select coalesce(max(id), 0)::int as id from batch',
  )
  return row!.id
}
