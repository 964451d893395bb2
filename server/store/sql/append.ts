import type { ClientBase } from 'pg'
import type { ResolvedReward } from '../../contract/resolved-reward.ts'
import type { SampleInput } from '../../contract/trainer.ts'
import { ADVISORY_LOCKS } from '../advisory-locks.ts'
import { plainArray, textArray } from '../array-literal.ts'
import type { Client, Database, Statement } from '../database.ts'
import {
  type Column,
  type ColumnValue,
  columnNames,
  WRITTEN_SAMPLE_COLUMNS,
  WRITTEN_TEXT_COLUMNS,
} from '../sample-columns.ts'
import { type EncodedTexts, promptKeyOf } from '../stored-texts.ts'
import type { GroupLists } from './accept.ts'

/**
 * Prevents other transactions from appending to, closing or cancelling a batch until the caller's transaction ends. A
 * failed sample of a batch with `fail_batch` can still close the batch.
 */
export async function lockBatch(client: Client, batchId: number): Promise<void> {
  await client.query('select pg_advisory_xact_lock($1, $2)', [ADVISORY_LOCKS.batch, batchId])
}

export interface AppendedBatch {
  id: number
  run_id: number
  run: string
  status: string
  closed: boolean
  samples: number
  groups: number
  group_size: number | null
  reward: ResolvedReward
  priority: number
  bucket: string
  implicit: boolean
  now: Date
}

export async function batchToAppendTo(
  client: Client,
  id: number,
): Promise<AppendedBatch | undefined> {
  const { rows } = await client.query<AppendedBatch>({
    name: 'open-batch',
    text: `select batch.id, run_id, run.name as run, status, closed, samples, groups, group_size, reward, priority,
             text_bucket::text as bucket, implicit_key is not null as implicit, clock_timestamp() as now
           from batch join run on run.id = batch.run_id where batch.id = $1`,
    values: [id],
  })
  return rows[0]
}

/** The groups of a batch that have these uids, locked in order of their number. */
export async function groupsToGrow(
  client: Client,
  batchId: number,
  uids: readonly string[],
): Promise<{ uid: string; no: number; received: number }[]> {
  const { rows } = await client.query<{ uid: string; no: number; received: number }>(
    `select uid, no, received from sample_group where batch_id = $1 and uid = any($2::text[])
     order by no for update`,
    [batchId, uids],
  )
  return rows
}

export async function growGroups(
  client: Client,
  batchId: number,
  added: { nos: readonly number[] } & Pick<GroupLists, 'received' | 'ended'>,
): Promise<void> {
  await client.query(
    `update sample_group g set received = g.received + t.received, ended = g.ended + t.ended
     from unnest($2::int[], $3::int[], $4::int[]) as t(no, received, ended)
     where g.batch_id = $1 and g.no = t.no`,
    [batchId, added.nos, added.received, added.ended],
  )
}

export async function addGroups(
  client: Client,
  batchId: number,
  added: { nos: readonly number[] } & GroupLists,
): Promise<void> {
  await client.query(
    `insert into sample_group (batch_id, no, uid, received, ended, prompt_key)
     select $1, t.no, t.uid, t.received, t.ended, t.prompt_key
     from unnest($2::int[], $3::text[], $4::int[], $5::int[], $6::bytea[]) as t(no, uid, received, ended, prompt_key)`,
    [batchId, added.nos, added.uids, added.received, added.ended, added.promptKeys],
  )
}

/**
 * Adds appended samples to the counts of their batch. `groups`: the batch's new number of groups. Returns false if a
 * failed sample has closed the batch since the batch was read. The appended samples would then stay pending forever.
 */
export async function countAppended(
  client: Client,
  batchId: number,
  added: { samples: number; scored: number; groups: number },
): Promise<boolean> {
  const { rowCount } = await client.query(
    `update batch set samples = samples + $2, scored = scored + $3, groups = $4, last_append_at = clock_timestamp()
     where id = $1 and not closed`,
    [batchId, added.samples, added.scored, added.groups],
  )
  return rowCount === 1
}

/** A stored sample, for comparison with a sample that is sent again. */
export interface StoredSample {
  uid: string | undefined
  /** The score that was sent with the sample, or null if the service scores it. */
  givenScore: number | null
  /** The columns of {@link WRITTEN_SAMPLE_COLUMNS}. Result columns hold the result if the service scored the sample. */
  values: Readonly<Record<string, ColumnValue>>
  /** The columns of {@link WRITTEN_TEXT_COLUMNS}, or undefined if the text is missing. */
  text: Readonly<Record<string, ColumnValue>> | undefined
}

/**
 * Samples `from` (included) to `to` (excluded) of a batch, in order. Combines three lookups by key: without
 * statistics, Postgres planned a join that searched all groups of the batch for each of 5,000 samples.
 */
export async function storedSamples(
  client: Client,
  { id, bucket }: Pick<AppendedBatch, 'id' | 'bucket'>,
  from: number,
  to: number,
): Promise<StoredSample[]> {
  const range = [id, from, to]
  // A scored sample without a worker was sent with its score. JSON is read as text, to compare it as stored.
  const columns = WRITTEN_SAMPLE_COLUMNS.map(({ name, type }) =>
    type === 'json' ? `${name}::text` : name,
  )
  const { rows: samples } = await client.query<
    { idx: number; group_no: number; given_score: number | null } & Record<string, ColumnValue>
  >(
    `select idx, group_no, case when status = 2 and worker_id is null then raw_score end as given_score,
       ${columns.join(', ')}
     from sample where batch_id = $1 and idx >= $2 and idx < $3 order by batch_id, idx`,
    range,
  )
  const { rows: texts } = await client.query<{ idx: number } & Record<string, ColumnValue>>(
    `select idx, ${columnNames(WRITTEN_TEXT_COLUMNS)} from sample_text
     where bucket = $4 and batch_id = $1 and idx >= $2 and idx < $3 order by bucket, batch_id, idx`,
    [...range, bucket],
  )
  const nos = samples.map((sample) => sample.group_no)
  const { rows: groups } = await client.query<{ no: number; uid: string }>(
    'select no, uid from sample_group where batch_id = $1 and no between $2 and $3 order by batch_id, no',
    [id, least(nos), greatest(nos)],
  )
  const uids = new Map(groups.map(({ no, uid }) => [no, uid]))
  const textOf = new Map(texts.map((text) => [text.idx, text]))
  return samples.map((values) => ({
    uid: uids.get(values.group_no),
    givenScore: values.given_score,
    values,
    text: textOf.get(values.idx),
  }))
}

function least(values: readonly number[]): number {
  return values.reduce((a, b) => Math.min(a, b), 2_147_483_647)
}

function greatest(values: readonly number[]): number {
  return values.reduce((a, b) => Math.max(a, b), 0)
}

export async function samplesOfFilledGroups(
  client: Client,
  batchId: number,
  groups: readonly number[],
  groupSize: number,
): Promise<{ group_no: number; idx: number }[]> {
  return pendingOfGroups(client, 'g.no = any($2::int[]) and g.received = $3', [
    batchId,
    groups,
    groupSize,
  ])
}

/**
 * Pending samples of groups that are not full, with their groups, in order of index. Without a group size, no group is
 * full.
 */
export async function samplesOfUnfilledGroups(
  client: Client,
  batchId: number,
  groupSize: number | null,
): Promise<{ group_no: number; idx: number }[]> {
  return pendingOfGroups(client, '($2::int is null or g.received < $2)', [batchId, groupSize])
}

async function pendingOfGroups(
  client: Client,
  condition: string,
  values: unknown[],
): Promise<{ group_no: number; idx: number }[]> {
  const { rows } = await client.query<{ group_no: number; idx: number }>(
    `select s.group_no, s.idx from sample s join sample_group g on g.batch_id = s.batch_id and g.no = s.group_no
     where s.batch_id = $1 and s.status = 0 and ${condition} order by s.batch_id, s.idx`,
    values,
  )
  return rows
}

/** The next index of a batch; 0 if the batch was removed. */
export async function nextIndex(
  client: Pick<ClientBase, 'query'>,
  batchId: number,
): Promise<number> {
  const { rows } = await client.query<{ samples: number }>({
    name: 'next-index',
    text: 'select samples from batch where id = $1',
    values: [batchId],
  })
  return rows[0]?.samples ?? 0
}

/**
 * The statement that appends samples to the end of an open batch (server/store/functions/append-singles.sql). `sent`
 * and `stored` are the texts of `samples`, in the same order. `stored` has references in place of images. `notice` is
 * the payload of the notification to send.
 */
export function appendStatement(
  batchId: number,
  start: number,
  samples: readonly SampleInput[],
  { sent, stored }: { sent: readonly EncodedTexts[]; stored: readonly EncodedTexts[] },
  notice: string,
): Statement {
  const values = [
    batchId,
    start,
    notice,
    textArray(samples.map(({ uid }) => uid)),
    textArray(samples.map((sample, at) => byteaText(promptKeyOf(sample, sent[at]!)))),
    plainArray(samples.map(({ score }) => score ?? null)),
    ...WRITTEN_SAMPLE_COLUMNS.map((column) => arrayOf(column, samples)),
    ...WRITTEN_TEXT_COLUMNS.map((column) => arrayOf(column, stored)),
  ]
  return {
    name: 'append-singles',
    text: `select append_singles(${values.map((_, i) => `$${i + 1}`).join(', ')})`,
    values,
  }
}

function byteaText(bytes: Buffer | null): string | null {
  return bytes === null ? null : `\\x${bytes.toString('hex')}`
}

function arrayOf<Source>({ type, of }: Column<Source>, sources: readonly Source[]): string {
  const values = sources.map(of)
  return type === 'text' || type === 'json'
    ? textArray(values as (string | null)[])
    : plainArray(values as (number | null)[])
}

export function scoreKeyStatement(
  batchId: number,
  keyed: readonly { key: string; hash: Buffer; index: number }[],
): Statement {
  return {
    name: 'score-keys',
    text: `insert into score_key (key, batch_id, idx, content_hash)
           select t.key, $2, t.idx, t.hash from unnest($1::text[], $3::int[], $4::bytea[]) as t(key, idx, hash)`,
    values: [keyed.map((k) => k.key), batchId, keyed.map((k) => k.index), keyed.map((k) => k.hash)],
  }
}

export async function sampleOfKey(
  db: Database,
  key: string,
): Promise<{ batch_id: number; idx: number; content_hash: Buffer } | undefined> {
  const [row] = await db.rows<{ batch_id: number; idx: number; content_hash: Buffer }>(
    'score-key',
    'select batch_id, idx, content_hash from score_key where key = $1',
    [key],
  )
  return row
}
