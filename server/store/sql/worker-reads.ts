import type { ResolvedReward } from '../../rewards/resolve.ts'
import type { Database } from '../database.ts'

/** What a worker needs to know of a batch. */
export interface BatchSpec {
  id: number
  run: string
  reward: ResolvedReward
  priority: number
  bucket: string
  deadline_at: Date | null
  status: string
}

export async function batchSpec(db: Database, id: number): Promise<BatchSpec | undefined> {
  const [row] = await db.rows<BatchSpec>(
    'batch-spec',
    `select batch.id, run.name as run, reward, priority, text_bucket::text as bucket, deadline_at, status
     from batch join run on run.id = batch.run_id where batch.id = $1`,
    [id],
  )
  return row
}

/** A sample to score; `prompt` is left out where nothing reads it. */
export interface PendingSample {
  idx: number
  data_source: string
  prompt: string | null
  response: string
  ground_truth: string | null
  extra_info: string | null
  encoding: number
}

/** The pending samples of an index range, with their texts. */
export async function pendingSamples(
  db: Database,
  batch: BatchSpec,
  ranges: readonly number[],
): Promise<PendingSample[]> {
  const withPrompt = batch.reward.kind === 'model'
  const out: PendingSample[] = []
  for (let k = 0; k < ranges.length; k += 2) {
    const rows = await db.rows<PendingSample>(
      withPrompt ? 'pending-with-prompt' : 'pending-samples',
      `select s.idx, s.data_source, ${withPrompt ? 't.prompt' : 'null as prompt'}, t.response, t.ground_truth,
              t.extra_info, t.encoding
       from sample s join sample_text t on t.batch_id = s.batch_id and t.idx = s.idx
       where s.batch_id = $1 and s.idx between $2 and $3 and s.status < 2
         and t.bucket = $4 and t.batch_id = $1 and t.idx between $2 and $3`,
      [batch.id, ranges[k], ranges[k + 1], batch.bucket],
    )
    out.push(...rows)
  }
  return out
}
