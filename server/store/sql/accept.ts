import type { SubmitEnvelope } from '../../contract/trainer.ts'
import type { TraceContext } from '../../trace-context.ts'
import type { Client, Database } from '../database.ts'

/** The id of a run, which is created if it does not exist. */
export async function runNamed(db: Database, name: string): Promise<number> {
  await db.rows('run-insert', 'insert into run (name) values ($1) on conflict (name) do nothing', [
    name,
  ])
  const [row] = await db.rows<{ id: number }>('run-by-name', 'select id from run where name = $1', [
    name,
  ])
  return row!.id
}

/**
 * Prevents a run's deletion until the transaction ends. Returns the run's id, which is a new one if the run was deleted
 * in the meantime and had to be created again.
 */
export async function holdRun(client: Client, id: number, name: string): Promise<number> {
  const held = await client.query({
    name: 'run-hold',
    text: 'select 1 from run where id = $1 for key share',
    values: [id],
  })
  if (held.rowCount === 1) return id
  const { rows } = await client.query<{ id: number }>(
    'insert into run (name) values ($1) on conflict (name) do update set name = excluded.name returning id',
    [name],
  )
  return rows[0]!.id
}

export async function nextBatchId(client: Client): Promise<number> {
  const { rows } = await client.query<{ id: number }>("select nextval('batch_id_seq')::int as id")
  return rows[0]!.id
}

/** The columns of a new batch that are not part of its envelope. */
export interface NewBatch {
  /** Null to give the batch the next id. */
  id: number | null
  runId: number
  reward: object
  rewardName: string
  samples: number
  /** Samples with a given score. */
  scored: number
  groups: number
  implicitKey: string | null
  contentHash: Buffer | null
  /** The day whose partition stores the batch's texts, `YYYY-MM-DD`. */
  bucket: string
  trace: TraceContext | null
}

/** Inserts a batch. Returns its id and `now`, the time of the insert by the database's clock. */
export async function insertBatch(
  client: Client,
  envelope: SubmitEnvelope,
  batch: NewBatch,
): Promise<{ id: number; now: Date }> {
  const { rows } = await client.query<{ id: number; now: Date }>({
    name: 'batch-insert',
    text: `insert into batch (id, run_id, step, split, status, closed, group_size, reward, reward_name, priority,
             samples, scored, groups, deadline_at, implicit_key, idempotency_key, content_hash, text_bucket,
             trace, trace_due)
           values (coalesce($18, nextval('batch_id_seq')), $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12,
             clock_timestamp() + $13 * interval '1 millisecond', $14, $15, $16, $17, $19, $20)
           returning id, submitted_at as now`,
    values: [
      batch.runId,
      envelope.step,
      envelope.split,
      envelope.open ? 'open' : 'running',
      !envelope.open,
      envelope.groupSize,
      JSON.stringify(batch.reward),
      batch.rewardName,
      envelope.priority,
      batch.samples,
      batch.scored,
      batch.groups,
      envelope.deadlineMs,
      batch.implicitKey,
      envelope.idempotencyKey ?? null,
      batch.contentHash,
      batch.bucket,
      batch.id,
      batch.trace,
      batch.trace?.isSampled ? true : null,
    ],
  })
  return rows[0]!
}

export interface GroupLists {
  uids: readonly string[]
  /** Number of samples in each group. */
  received: readonly number[]
  /** Number of these samples with a given score. */
  ended: readonly number[]
  promptKeys: readonly (Buffer | null)[]
}

export async function insertGroups(
  client: Client,
  batchId: number,
  { uids, received, ended, promptKeys }: GroupLists,
): Promise<void> {
  await client.query({
    name: 'groups-insert',
    text: `insert into sample_group (batch_id, no, uid, received, ended, prompt_key)
           select $1, t.ord - 1, t.uid, t.received, t.ended, t.prompt_key
           from unnest($2::text[], $3::int[], $4::int[], $5::bytea[]) with ordinality
             as t(uid, received, ended, prompt_key, ord)`,
    values: [batchId, uids, received, ended, promptKeys],
  })
}

export async function batchOfKey(
  db: Database,
  key: string,
): Promise<{ id: number; content_hash: Buffer; samples: number; groups: number } | undefined> {
  const [row] = await db.rows<{
    id: number
    content_hash: Buffer
    samples: number
    groups: number
  }>(
    'batch-by-key',
    'select id, content_hash, samples, groups from batch where idempotency_key = $1',
    [key],
  )
  return row
}

/** The open batch that samples.score created under this key; undefined if there is none. */
export async function openImplicitBatch(db: Database, key: string): Promise<number | undefined> {
  const [row] = await db.rows<{ id: number }>(
    'implicit-open',
    'select id from batch where implicit_key = $1 and not closed',
    [key],
  )
  return row?.id
}
