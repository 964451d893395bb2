import type { GroupSignalCounts } from '../../contract/group-signal.ts'
import type { MonitorName } from '../../contract/monitors.ts'
import type { ResolvedReward } from '../../contract/resolved-reward.ts'
import type { Client, Database } from '../database.ts'
import type { ComponentStatsRow } from './components.ts'

/**
 * Ended batches that the monitors have not evaluated, oldest first. A completed batch with samples is included once
 * it is rolled up.
 */
export async function batchesToMonitor(db: Database, limit: number): Promise<number[]> {
  const rows = await db.rows<{ id: number }>(
    'batches-to-monitor',
    `select id from batch where not monitored and completed_at is not null
       and (rolled_up or status <> 'completed' or samples = 0) order by id limit $1`,
    [limit],
  )
  return rows.map(({ id }) => id)
}

export interface MonitoredBatch {
  id: number
  run_id: number
  run: string
  split: 'train' | 'val'
  step: number
  completed_at: Date
  /** True if the batch is completed and rolled up, has samples and is not a rescore. */
  counts: boolean
  reward: Pick<ResolvedReward, 'kind' | 'components' | 'wraps' | 'gdpo'>
  group_signals: GroupSignalCounts | null
}

/**
 * Marks a batch as evaluated, which locks it until the transaction ends. Returns undefined if it was already evaluated.
 */
export async function takeToMonitor(
  client: Client,
  batchId: number,
): Promise<MonitoredBatch | undefined> {
  const { rows } = await client.query<MonitoredBatch>({
    name: 'take-to-monitor',
    text: `update batch b set monitored = true from run
           where b.id = $1 and not b.monitored and run.id = b.run_id
           returning b.id, b.run_id, run.name as run, b.split, b.step, b.completed_at, b.group_signals,
             b.status = 'completed' and b.rolled_up and b.rescored_from is null and b.samples > 0 as counts,
             json_strip_nulls(json_build_object('kind', b.reward -> 'kind', 'components', b.reward -> 'components',
               'wraps', b.reward -> 'wraps', 'gdpo', b.reward -> 'gdpo')) as reward`,
    values: [batchId],
  })
  return rows[0]
}

export interface FigureRow {
  batch_id: number
  samples: number
  failed: number
  mean: number | null
  std: number | null
  min: number | null
  max: number | null
  bin_values: number[]
  bin_counts: number[]
  components: ComponentStatsRow[] | null
  length_n: number | null
  length_unit: 'tokens' | 'bytes' | null
  length_correlation: number | null
  duplicates: number | null
  duplicates_of: number | null
  group_std: number | null
  group_std_of: number | null
}

const FIGURES = `r.batch_id, r.samples, r.failed, r.mean, r.std, r.min, r.max, r.bin_values, r.bin_counts, r.components, r.length_n,
  r.length_unit, r.length_correlation, r.duplicates, r.duplicates_of, r.group_std, r.group_std_of`

export async function figuresOf(client: Client, batchId: number): Promise<FigureRow | undefined> {
  const { rows } = await client.query<FigureRow>({
    name: 'monitor-figures-of',
    text: `select ${FIGURES} from batch_roll_up r where r.batch_id = $1 and r.data_source = ''`,
    values: [batchId],
  })
  return rows[0]
}

export type WindowRow = Pick<FigureRow, 'mean' | 'min' | 'max' | 'group_std' | 'group_std_of'>

export async function windowBefore(
  client: Client,
  batch: Pick<MonitoredBatch, 'id' | 'run_id' | 'split' | 'step'>,
  size: number,
): Promise<WindowRow[]> {
  const { rows } = await client.query<WindowRow>({
    name: 'monitor-window',
    text: `select r.mean, r.min, r.max, r.group_std, r.group_std_of
           from (select batch_id from monitor_evaluation where run_id = $1 and split = $2 and batch_id < $3 and step < $4
                 order by batch_id desc limit $5) e
           join batch_roll_up r on r.batch_id = e.batch_id and r.data_source = '' order by e.batch_id desc`,
    values: [batch.run_id, batch.split, batch.id, batch.step, size],
  })
  return rows
}

export interface StoredValue {
  value: number | null
  n: number
  state: string
  detail: string | null
}

export async function storeEvaluation(
  client: Client,
  batch: Pick<MonitoredBatch, 'id' | 'run_id' | 'split' | 'step' | 'completed_at'>,
  values: Record<MonitorName, StoredValue>,
): Promise<void> {
  await client.query({
    name: 'store-monitor-evaluation',
    text: `insert into monitor_evaluation (batch_id, run_id, split, step, at, values) values ($1, $2, $3, $4, $5, $6)`,
    values: [
      batch.id,
      batch.run_id,
      batch.split,
      batch.step,
      batch.completed_at,
      JSON.stringify(values),
    ],
  })
}
