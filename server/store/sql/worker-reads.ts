import type { ResolvedReward } from '../../contract/resolved-reward.ts'
import type { TraceContext } from '../../trace-context.ts'
import type { Database } from '../database.ts'
import type { InlineSample } from '../job-queue.ts'

export interface BatchSpec {
  id: number
  run: string
  reward: ResolvedReward
  priority: number
  bucket: string
  deadline_at: Date | null
  status: string
  trace: TraceContext | null
}

export async function batchSpec(db: Database, id: number): Promise<BatchSpec | undefined> {
  const [row] = await db.rows<BatchSpec>(
    'batch-spec',
    `select batch.id, run.name as run, reward, priority, text_bucket::text as bucket, deadline_at, status, trace
     from batch join run on run.id = batch.run_id where batch.id = $1`,
    [id],
  )
  return row
}

/** A sample to score; `prompt` is null if the reward does not read it. */
export type PendingSample = InlineSample & {
  /** Its group within the batch; absent for samples that arrived one at a time. */
  group_no?: number
}

interface TextRow {
  idx: number
  prompt: string | null
  response: string
  ground_truth: string | null
  extra_info: string | null
  encoding: number
}

/**
 * The pending samples of index ranges, with their texts. Two range scans are combined here instead of in a join,
 * because the planner has no statistics of a new batch yet and could choose a plan that costs a hundred times more.
 */
export async function pendingSamples(
  db: Database,
  batch: BatchSpec,
  ranges: readonly number[],
): Promise<PendingSample[]> {
  const withPrompt = batch.reward.kind !== 'rule'
  const out: PendingSample[] = []
  for (let k = 0; k < ranges.length; k += 2) {
    const [from, to] = [ranges[k], ranges[k + 1]]
    const [pending, texts] = await Promise.all([
      db.rows<{
        idx: number
        data_source: string
        group_no: number
        response_length: number | null
      }>(
        'pending-samples',
        `select idx, data_source, group_no, response_length from sample where batch_id = $1 and idx between $2 and $3 and status = 0
         order by batch_id, idx`,
        [batch.id, from, to],
      ),
      db.rows<TextRow>(
        withPrompt ? 'texts-with-prompt' : 'texts',
        `select idx, ${withPrompt ? 'prompt' : 'null as prompt'}, response, ground_truth, extra_info, encoding
         from sample_text where bucket = $4 and batch_id = $1 and idx between $2 and $3`,
        [batch.id, from, to, batch.bucket],
      ),
    ])
    const byIndex = new Map(texts.map((t) => [t.idx, t]))
    for (const { idx, ...rest } of pending) {
      const text = byIndex.get(idx)
      if (text) out.push({ ...text, ...rest })
    }
  }
  return out
}

/** A whole group, for rewards that score its members together. */
export interface WholeGroup {
  no: number
  /** In order of index, scored and failed members included. */
  members: PendingSample[]
  /** Indexes of the members not scored or failed yet. */
  pending: Set<number>
}

/**
 * The groups with pending samples in these ranges, each with all its members. After a worker dies, the next worker
 * scores the whole group again, even if some results were written.
 */
export async function wholeGroups(
  db: Database,
  batch: BatchSpec,
  ranges: readonly number[],
): Promise<WholeGroup[]> {
  const requested = await pendingSamples(db, batch, ranges)
  const nos = [...new Set(requested.map((sample) => sample.group_no as number))]
  if (nos.length === 0) return []
  const members = await db.rows<{
    idx: number
    data_source: string
    group_no: number
    response_length: number | null
  }>(
    'members-of-whole-groups',
    `select idx, data_source, group_no, response_length from sample where batch_id = $1 and group_no = any($2::int[])
     order by batch_id, idx`,
    [batch.id, nos],
  )
  const texts = new Map<number, TextRow>(requested.map((sample) => [sample.idx, sample]))
  const others = members.flatMap(({ idx }) => (texts.has(idx) ? [] : [idx]))
  if (others.length > 0) {
    const rows = await db.rows<TextRow>(
      'texts-by-index',
      `select idx, prompt, response, ground_truth, extra_info, encoding from sample_text
       where bucket = $3 and batch_id = $1 and idx = any($2::int[])`,
      [batch.id, others, batch.bucket],
    )
    for (const row of rows) texts.set(row.idx, row)
  }
  const pending = new Set(requested.map((sample) => sample.idx))
  const groups = new Map<number, WholeGroup>(
    nos.map((no) => [no, { no, members: [], pending: new Set() }]),
  )
  for (const { idx, ...rest } of members) {
    const group = groups.get(rest.group_no) as WholeGroup
    const text = texts.get(idx)
    if (text) group.members.push({ ...text, ...rest })
    if (pending.has(idx)) group.pending.add(idx)
  }
  return [...groups.values()]
}
