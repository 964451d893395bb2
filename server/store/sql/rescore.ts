import { ADVISORY_LOCKS } from '../advisory-locks.ts'
import { type Client, type Database, inTransaction } from '../database.ts'
import { columnNames, RESCORED_SAMPLE_COLUMNS, WRITTEN_TEXT_COLUMNS } from '../sample-columns.ts'

/** Maximum number of rows of an abandoned copy that one statement deletes. */
const MAX_DELETE_ROWS = 2_048

export interface RolloutCopy {
  fromId: number
  fromBucket: string
  toId: number
  toBucket: string
}

export interface CopiedSample {
  idx: number
  group_no: number
  /** Bytes of prompt and response, or null if the texts were removed. */
  work: number | null
  /** Bytes of all texts, or null if the texts were removed. */
  bytes: number | null
}

export async function dataSourcesOf(db: Database, batchId: number): Promise<string[]> {
  const rows = await db.rows<{ data_source: string }>(
    'data-sources-of',
    'select distinct data_source from sample where batch_id = $1 order by 1',
    [batchId],
  )
  return rows.map((row) => row.data_source)
}

/**
 * Allocates a batch id and registers a copy of another batch's rollouts for it. The connection holds the copy until
 * {@link releaseCopy} or until the connection closes. A copy without a holder is deleted. Returns null if the
 * original's texts have been removed or are being removed. Otherwise the texts are kept while the copy runs.
 */
export async function beginCopy(
  client: Client,
  fromId: number,
  toBucket: string,
): Promise<number | null> {
  const { rows } = await client.query<{ id: number }>("select nextval('batch_id_seq')::int as id")
  const { id } = rows[0]!
  // The lock is taken before the copy becomes visible, so that a copy always has a holder.
  await client.query('select pg_advisory_lock($1, $2)', [ADVISORY_LOCKS.copy, id])
  const begun = await inTransaction(client, async () => {
    // Retention marks batches under the exclusive lock, so either retention sees this copy, or the next statement
    // sees the mark.
    await client.query('select pg_advisory_xact_lock_shared($1)', [ADVISORY_LOCKS.retentionMarks])
    const { rowCount } = await client.query(
      `insert into rescore_copy (batch_id, from_id, text_bucket)
       select $1::int, id, $3::date from batch where id = $2 and texts_removed_at is null`,
      [id, fromId, toBucket],
    )
    return rowCount === 1
  })
  if (begun) return id
  await releaseCopy(client, id)
  return null
}

export async function releaseCopy(client: Client, toId: number): Promise<void> {
  await client.query('select pg_advisory_unlock($1, $2)', [ADVISORY_LOCKS.copy, toId])
}

/**
 * Samples `from` to `to` (included) of the original, in order. Sizes come from the rows' headers, not from the texts.
 */
export async function samplesToCopy(
  client: Client,
  copy: RolloutCopy,
  from: number,
  to: number,
): Promise<CopiedSample[]> {
  const { rows } = await client.query<CopiedSample>({
    name: 'samples-to-copy',
    text: `select s.idx, s.group_no, octet_length(t.prompt) + octet_length(t.response) as work,
             octet_length(t.prompt) + octet_length(t.response) + coalesce(octet_length(t.ground_truth), 0)
               + coalesce(octet_length(t.extra_info), 0) as bytes
           from sample s
           left join sample_text t on t.bucket = $4 and t.batch_id = s.batch_id and t.idx = s.idx
           where s.batch_id = $1 and s.idx between $2 and $3 order by s.batch_id, s.idx`,
    values: [copy.fromId, from, to, copy.fromBucket],
  })
  return rows
}

export async function copyTexts(
  client: Client,
  copy: RolloutCopy,
  from: number,
  to: number,
): Promise<void> {
  await client.query({
    name: 'copy-texts',
    text: `insert into sample_text (bucket, batch_id, idx, ${columnNames(WRITTEN_TEXT_COLUMNS)})
           select $5::date, $6::int, idx, ${columnNames(WRITTEN_TEXT_COLUMNS)}
           from sample_text where bucket = $4 and batch_id = $1 and idx between $2 and $3`,
    values: [copy.fromId, from, to, copy.fromBucket, copy.toBucket, copy.toId],
  })
}

/** Copies samples `from` to `to` (included) without their results. */
export async function copySamples(
  client: Client,
  copy: RolloutCopy,
  from: number,
  to: number,
): Promise<void> {
  await client.query({
    name: 'copy-samples',
    text: `insert into sample (batch_id, idx, group_no, ${columnNames(RESCORED_SAMPLE_COLUMNS)})
           select $4::int, idx, group_no, ${columnNames(RESCORED_SAMPLE_COLUMNS)}
           from sample where batch_id = $1 and idx between $2 and $3`,
    values: [copy.fromId, from, to, copy.toId],
  })
}

/** Copies groups `from` to `to` (included). In the copies, all members are pending. */
export async function copyGroups(
  client: Client,
  copy: RolloutCopy,
  from: number,
  to: number,
): Promise<void> {
  await client.query({
    name: 'copy-groups',
    text: `insert into sample_group (batch_id, no, uid, received, prompt_key)
           select $4::int, no, uid, received, prompt_key
           from sample_group where batch_id = $1 and no between $2 and $3`,
    values: [copy.fromId, from, to, copy.toId],
  })
}

/**
 * Inserts the batch of a copy, with the run, step, split, group size and images of the original. The same transaction
 * inserts the batch's jobs.
 */
export async function insertRescored(
  client: Client,
  copy: RolloutCopy,
  batch: {
    reward: string
    rewardName: string
    idempotencyKey: string | null
    contentHash: Buffer | null
    /** Size of the copied part, or null if the whole original is copied. */
    part: { samples: number; groups: number; wholeGroups: boolean } | null
  },
): Promise<{ submitted_at: Date }> {
  const { rowCount } = await client.query('delete from rescore_copy where batch_id = $1', [
    copy.toId,
  ])
  if (rowCount !== 1) throw new Error(`the copy of b${copy.fromId} was deleted`)
  const { rows } = await client.query<{ submitted_at: Date }>({
    name: 'insert-rescored',
    text: `with images as (insert into batch_image (batch_id, sha256)
                            select $2::int, sha256 from batch_image where batch_id = $1)
           insert into batch (id, run_id, step, split, status, closed, group_size, reward, reward_name, samples, groups,
             idempotency_key, content_hash, text_bucket, rescored_from)
           select $2::int, run_id, step, split, 'running', true, case when $10 then group_size end, $3::jsonb, $4,
             coalesce($8::int, samples), coalesce($9::int, groups), $5, $6, $7::date, id
           from batch where id = $1 returning submitted_at`,
    values: [
      copy.fromId,
      copy.toId,
      batch.reward,
      batch.rewardName,
      batch.idempotencyKey,
      batch.contentHash,
      copy.toBucket,
      batch.part?.samples ?? null,
      batch.part?.groups ?? null,
      batch.part?.wholeGroups ?? true,
    ],
  })
  return rows[0]!
}

export async function rescoresOf(db: Database, batchId: number, limit: number): Promise<number[]> {
  const rows = await db.rows<{ id: number }>(
    'rescores-of',
    'select id from batch where rescored_from = $1 order by id limit $2',
    [batchId, limit],
  )
  return rows.map(({ id }) => id)
}

/**
 * Deletes some rows of a copy whose process has died. No reader has seen these rows. Safe to run on two servers
 * concurrently. Returns false if no such copy is left.
 */
export async function deleteAbandonedCopies(db: Database): Promise<boolean> {
  const copies = await db.rows<{ batch_id: number; bucket: string }>(
    'rescore-copies',
    'select batch_id, text_bucket::text as bucket from rescore_copy order by batch_id limit 20',
  )
  for (const { batch_id, bucket } of copies) {
    const tookBack = await db.transaction((client) => takeBackPiece(client, batch_id, bucket))
    if (tookBack) return true
  }
  return false
}

async function takeBackPiece(client: Client, id: number, bucket: string): Promise<boolean> {
  const { rows } = await client.query<{ mine: boolean }>(
    'select pg_try_advisory_xact_lock($1, $2) as mine',
    [ADVISORY_LOCKS.copy, id],
  )
  if (!rows[0]!.mine) return false
  // The copy may have become a batch between the query and the lock.
  const still = await client.query('select 1 from rescore_copy where batch_id = $1', [id])
  if (still.rowCount === 0) return false
  const pieces: [text: string, values: unknown[]][] = [
    [
      `delete from sample_text where bucket = $3 and batch_id = $1 and idx in (
         select idx from sample_text where bucket = $3 and batch_id = $1 order by idx limit $2)`,
      [id, MAX_DELETE_ROWS, bucket],
    ],
    [
      `delete from sample where batch_id = $1 and idx in (
         select idx from sample where batch_id = $1 order by idx limit $2)`,
      [id, MAX_DELETE_ROWS],
    ],
    [
      `delete from sample_group where batch_id = $1 and no in (
         select no from sample_group where batch_id = $1 order by no limit $2)`,
      [id, MAX_DELETE_ROWS],
    ],
  ]
  for (const [text, values] of pieces) {
    const { rowCount } = await client.query(text, values)
    if (rowCount) return true
  }
  await client.query('delete from rescore_copy where batch_id = $1', [id])
  return true
}
