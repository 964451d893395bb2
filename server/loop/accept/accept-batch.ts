import { RewardOpsError } from '../../errors.ts'
import type { AcceptedFunctions } from '../../rewards/functions/accepted-functions.ts'
import { resolveReward } from '../../rewards/resolve.ts'
import { checkRulesForMore } from '../../rewards/resolve-rules.ts'
import { copyIn } from '../../store/copy-in.ts'
import type { Client, Database } from '../../store/database.ts'
import {
  FUNCTIONS_POOL,
  INTERACTIVE_POOL,
  type JobQueue,
  poolOfLimiter,
  poolOfModel,
  RULES_POOL,
  SERVICES_POOL,
} from '../../store/job-queue.ts'
import { storeFunctions } from '../../store/sql/function-sources.ts'
import { ensureTextPartition, textBucket, textPartition } from '../../store/text-partitions.ts'
import { modelsOf, type ResolvedReward } from '../../wire/resolved-reward.ts'
import type { AppendResult, SubmitEnvelope, SubmitResult } from '../../wire/trainer.ts'
import { batchNumber } from '../batch-reader.ts'
import { checkPriority, holdToLimits, limitsOf, limitsReader } from '../settings/run-limits.ts'
import { type BatchDraft, SAMPLE_COPY_COLUMNS, TEXT_COPY_COLUMNS } from './batch-draft.ts'
import { chunk } from './chunks.ts'
import {
  queueFilledGroups,
  refuseSingles,
  scoresWholeGroups,
  wholeGroupJobs,
} from './whole-groups.ts'

/** Texts of a large body that were sent while it was still coming, in a transaction that is open. */
export interface EarlyTexts {
  client: Client
  batchId: number
  bucket: string
  /** Sends the last of them and ends their COPY. */
  finish(draft: BatchDraft): Promise<void>
}

/** The advisory lock that orders append, close and cancel of one batch; flushes never take it. */
export const BATCH_LOCK = 72_707_371

/** What accepting needs; the same on the server's loop and in the ingest thread. */
export interface AcceptContext {
  db: Database
  queue: JobQueue
  functions: AcceptedFunctions
}

const runIds = new Map<string, number>()

async function runId(db: Database, name: string): Promise<number> {
  const known = runIds.get(name)
  if (known !== undefined) return known
  await db.rows('run-insert', 'insert into run (name) values ($1) on conflict (name) do nothing', [
    name,
  ])
  const [row] = await db.rows<{ id: number }>('run-by-name', 'select id from run where name = $1', [
    name,
  ])
  if (runIds.size > 10_000) runIds.clear()
  runIds.set(name, row!.id)
  return row!.id
}

/** Keeps a run from being deleted until the transaction ends; one that was meanwhile is there again. */
async function holdRun(client: Client, id: number, name: string): Promise<number> {
  const held = await client.query({
    name: 'run-hold',
    text: 'select 1 from run where id = $1 for key share',
    values: [id],
  })
  if (held.rowCount === 1) return id
  runIds.delete(name)
  const { rows } = await client.query<{ id: number }>(
    'insert into run (name) values ($1) on conflict (name) do update set name = excluded.name returning id',
    [name],
  )
  return rows[0]!.id
}

/** The pool whose queue takes a reward's jobs. */
export function poolOf(reward: ResolvedReward): string {
  // What waits at a limit waits in a queue of its own: in another's it would stand before what could go.
  if (reward.limiter !== undefined) return poolOfLimiter(reward.limiter.name)
  if (reward.kind === 'rule') return RULES_POOL
  const models = modelsOf(reward)
  // A sum waits for its slowest part, and that is a model if it has one.
  if (models.length > 0) return poolOfModel(models[0] as string)
  // What computes for long takes what it can do soon.
  if (reward.processes !== undefined) return FUNCTIONS_POOL
  return callsFunctions(reward) ? FUNCTIONS_POOL : SERVICES_POOL
}

function callsFunctions({ kind, parts = [] }: ResolvedReward): boolean {
  return kind === 'function' || parts.some((part) => callsFunctions(part.reward))
}

/** Whether a reward that was asked for names a reward model. */
export function asksModels({ model, combine }: SubmitEnvelope['reward']): boolean {
  return model !== null || (combine ?? []).some((part) => part.reward.model !== null)
}

/** The models that have a registered server, as `resolveReward` asks for them. */
export async function registeredModels(
  db: Database,
): Promise<{ models: string[]; judges: string[]; sleepless: string[] }> {
  const rows = await db.rows<{ model: string; kind: string; may_sleep: boolean }>(
    'models',
    // Of a server that does not answer it is not known.
    `select model, kind, bool_or(can_sleep or state in ('unreachable', 'dead', 'registering')) as may_sleep
     from server where removed_at is null group by model, kind order by 1`,
  )
  const of = (kind: string) => rows.filter((row) => row.kind === kind).map((row) => row.model)
  return {
    models: of('discriminative'),
    judges: of('generative'),
    sleepless: rows.filter((row) => !row.may_sleep).map((row) => row.model),
  }
}

function checkGroupSizes(
  draft: BatchDraft,
  groupSize: number | null,
  before: (uid: string) => number,
): void {
  if (groupSize === null) return
  for (let g = 0; g < draft.uids.length; g++) {
    const uid = draft.uids[g] as string
    const size = before(uid) + (draft.sizes[g] as number)
    if (size > groupSize) {
      throw new RewardOpsError(
        'group_too_large',
        `uid "${uid}" has ${size} samples and groupSize is ${groupSize}.`,
      )
    }
  }
}

/**
 * Accepts a whole batch in one transaction: batch, groups, samples, texts and jobs are there together or not at
 * all. Resolves when it is committed. Throws RewardOpsError, and then nothing is stored.
 */
export async function acceptBatch(
  context: AcceptContext,
  envelope: SubmitEnvelope,
  draft: BatchDraft,
  options: {
    implicitKey?: string
    early?: EarlyTexts
    /** Of samples that will be appended: they are refused now. */
    dataSources?: readonly string[]
  } = {},
): Promise<SubmitResult> {
  const { db, queue } = context
  const { early } = options
  const implicitKey = options.implicitKey ?? null
  if (draft.count === 0 && !envelope.open) {
    throw new RewardOpsError('empty_batch', '"samples" is empty and the batch is not open.')
  }
  draft.checkIndexes(0)
  checkGroupSizes(draft, envelope.groupSize, () => 0)
  const dataSources = [...new Set([...draft.dataSources.keys(), ...(options.dataSources ?? [])])]
  const { versions, sources } = await context.functions.lookAt(envelope.reward)
  const { reward, rewardName } = resolveReward(envelope.reward, dataSources, {
    functions: versions,
    ...(asksModels(envelope.reward) ? await registeredModels(db) : { models: [] }),
  })
  if (implicitKey !== null) refuseSingles(reward)
  const { idempotencyKey, ...content } = envelope
  const hash = idempotencyKey ? draft.contentHash(content) : null
  if (idempotencyKey) {
    const known = await duplicateOf(db, idempotencyKey, hash as Buffer)
    if (known) return known
  }
  const limits = await limitsOf(db, envelope.run)
  checkPriority(limits, envelope.run, envelope.priority)
  let run = await runId(db, envelope.run)
  const bucket = early?.bucket ?? textBucket()
  if (!early) await ensureTextPartition(db, bucket)
  const pool = implicitKey === null ? poolOf(reward) : INTERACTIVE_POOL
  await ensurePool(db, queue, pool, reward)
  try {
    return await within(db, early, draft, async (client) => {
      await storeFunctions(client, sources)
      run = await holdRun(client, run, envelope.run)
      await holdToLimits(
        client,
        limits,
        { id: run, name: envelope.run },
        { samples: draft.count - draft.prescored, batches: 1 },
      )
      const { rows } = await client.query<{ id: number; now: Date }>({
        name: 'batch-insert',
        text: `insert into batch (id, run_id, step, split, status, closed, group_size, reward, reward_name, priority,
                 samples, scored, groups, deadline_at, implicit_key, idempotency_key, content_hash, text_bucket)
               values (coalesce($18, nextval('batch_id_seq')), $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12,
                 clock_timestamp() + $13 * interval '1 millisecond', $14, $15, $16, $17)
               returning id, submitted_at as now`,
        values: [
          run,
          envelope.step,
          envelope.split,
          envelope.open ? 'open' : 'running',
          !envelope.open,
          envelope.groupSize,
          JSON.stringify(reward),
          rewardName,
          envelope.priority,
          draft.count,
          draft.prescored,
          draft.uids.length,
          envelope.deadlineMs,
          implicitKey,
          idempotencyKey ?? null,
          hash,
          bucket,
          early?.batchId ?? null,
        ],
      })
      const batchId = rows[0]!.id
      const nowMs = rows[0]!.now.getTime()
      await client.query({
        name: 'groups-insert',
        text: `insert into sample_group (batch_id, no, uid, received, ended)
               select $1, t.ord - 1, t.uid, t.received, t.ended
               from unnest($2::text[], $3::int[], $4::int[]) with ordinality as t(uid, received, ended, ord)`,
        values: [batchId, draft.uids, draft.sizes, draft.prescoredOf],
      })
      const groupNo = draft.uids.map((_, local) => local)
      await storeSamples(
        client,
        draft,
        { batchId, startIndex: 0, bucket, groupNo, nowMs },
        early !== undefined,
      )
      const jobs = scoresWholeGroups(reward)
        ? wholeGroupJobs(
            draft.groupsToScore(envelope.open ? envelope.groupSize : 0),
            batchId,
            nowMs,
          )
        : chunk(
            draft.toScore(),
            (i) => draft.groupOf[i] as number,
            batchId,
            nowMs,
            asksModels(envelope.reward) ? (i) => draft.charsOf[i] as number : undefined,
          )
      await queue.insert(pool, jobs, { run: envelope.run, priority: envelope.priority, client })
      if (draft.prescored > 0) await client.query('select settle_batch($1)', [batchId])
      await client.query("select pg_notify('rewardops', $1)", [`b${batchId}`])
      return {
        batchId: `b${batchId}`,
        accepted: draft.count,
        groups: draft.uids.length,
        duplicate: false,
      }
    })
  } catch (error) {
    // Two submits with one key at the same moment: the second finds the first's batch.
    const e = error as { code?: string; constraint?: string }
    if (e.code === '23505' && e.constraint === 'batch_idempotency_key_key') {
      const known = await duplicateOf(db, idempotencyKey as string, hash as Buffer)
      if (known) return known
    }
    if (e.code === '22021' || e.code === '22P05') {
      throw new RewardOpsError('invalid_input', 'A name holds characters that cannot be stored.', {
        cause: error,
      })
    }
    throw error
  }
}

/** In the transaction that early texts began, which their owner ends; else in one of its own. */
async function within<T>(
  db: Database,
  early: EarlyTexts | undefined,
  draft: BatchDraft,
  work: (client: Client) => Promise<T>,
): Promise<T> {
  if (!early) return db.transaction(work)
  await early.finish(draft)
  return work(early.client)
}

/** A limiter's pool is there from its first batch on; the workers find it when they hear of its jobs. */
export async function ensurePool(
  db: Database,
  queue: JobQueue,
  pool: string,
  reward: ResolvedReward,
): Promise<void> {
  await queue.ensure(pool)
  if (reward.limiter === undefined || pool === INTERACTIVE_POOL) return
  await db.rows('pool-insert', 'insert into pool (name) values ($1) on conflict do nothing', [pool])
}

/** The batch that was accepted under this key; null: none was. Throws `idempotency_conflict` for other content. */
export async function duplicateOf(
  db: Database,
  key: string,
  hash: Buffer,
): Promise<SubmitResult | null> {
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
  if (!row) return null
  if (!hash.equals(row.content_hash)) {
    throw new RewardOpsError(
      'idempotency_conflict',
      `idempotencyKey "${key}" belongs to batch b${row.id}, whose content is another.`,
    )
  }
  return { batchId: `b${row.id}`, accepted: row.samples, groups: row.groups, duplicate: true }
}

async function storeSamples(
  client: Client,
  draft: BatchDraft,
  at: {
    batchId: number
    startIndex: number
    bucket: string
    groupNo: readonly number[]
    nowMs: number
  },
  textsAreIn = false,
): Promise<void> {
  if (draft.count === 0) return
  const { batchId, startIndex } = at
  await copyIn(
    client,
    `sample (${SAMPLE_COPY_COLUMNS})`,
    draft.sampleBlocks(batchId, startIndex, at.groupNo, at.nowMs),
  )
  if (textsAreIn) return
  await copyIn(
    client,
    `${textPartition(at.bucket)} (${TEXT_COPY_COLUMNS})`,
    draft.textBlocks(at.bucket, batchId, startIndex),
  )
}

interface OpenBatch {
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

/** Where samples are appended. */
export interface AppendAt {
  batchId: string
  startIndex: number
}

/**
 * Appends samples to an open batch, in one transaction. A repeated append changes nothing; a gap, other content
 * at stored indexes, or a closed batch is refused.
 */
export async function appendToBatch(
  context: AcceptContext,
  envelope: AppendAt,
  draft: BatchDraft,
): Promise<AppendResult> {
  const { db, queue } = context
  const batchId = batchNumber(envelope.batchId)
  const readLimits = await limitsReader(db)
  return db.transaction(async (client) => {
    await client.query('select pg_advisory_xact_lock($1, $2)', [BATCH_LOCK, batchId])
    const batch = await openBatch(client, batchId, envelope.batchId)
    const { startIndex } = envelope
    if (startIndex > batch.samples) {
      throw new RewardOpsError(
        'append_gap',
        `startIndex is ${startIndex}, but ${envelope.batchId} has ${batch.samples} samples: the next index is ${batch.samples}.`,
      )
    }
    draft.checkIndexes(startIndex)
    if (startIndex < batch.samples && draft.count > 0) {
      await checkRepetition(client, batch, startIndex, draft, envelope.batchId)
      return { batchId: envelope.batchId, accepted: 0, samples: batch.samples }
    }
    if (batch.closed) {
      throw new RewardOpsError(
        'batch_closed',
        `${envelope.batchId} is ${batch.status} and takes no more samples.`,
      )
    }
    checkRulesForMore([...draft.dataSources.keys()], batch.reward)
    await holdToLimits(
      client,
      readLimits(batch.run),
      { id: batch.run_id, name: batch.run },
      { samples: draft.count - draft.prescored, batches: 0 },
    )
    const groupNo = await appendGroups(client, batch, draft)
    await storeSamples(client, draft, {
      batchId,
      startIndex,
      bucket: batch.bucket,
      groupNo,
      nowMs: batch.now.getTime(),
    })
    await client.query(
      `update batch set samples = samples + $2, scored = scored + $3, groups = $4, last_append_at = clock_timestamp()
       where id = $1`,
      [
        batchId,
        draft.count,
        draft.prescored,
        Math.max(batch.groups, ...groupNo.map((no) => no + 1)),
      ],
    )
    const pool = batch.implicit ? INTERACTIVE_POOL : poolOf(batch.reward)
    if (scoresWholeGroups(batch.reward)) {
      const { run, priority, now, group_size } = batch
      const to = { batchId, run, priority, pool, nowMs: now.getTime() }
      await queueFilledGroups(client, queue, to, groupNo, group_size)
    } else {
      const jobs = chunk(
        draft.toScore().map((i) => i + startIndex),
        (i) => draft.groupOf[i - startIndex] as number,
        batchId,
        batch.now.getTime(),
        batch.reward.kind === 'rule' ? undefined : (i) => draft.charsOf[i - startIndex] as number,
      )
      await queue.insert(pool, jobs, { run: batch.run, priority: batch.priority, client })
    }
    // Without a size no group completes before the batch is closed: all that ended would be looked at with every append.
    if (draft.prescored > 0 && batch.group_size !== null) {
      await client.query('select settle_batch($1)', [batchId])
    }
    await client.query("select pg_notify('rewardops', $1)", [`b${batchId}`])
    return {
      batchId: envelope.batchId,
      accepted: draft.count,
      samples: batch.samples + draft.count,
    }
  })
}

async function openBatch(client: Client, id: number, name: string): Promise<OpenBatch> {
  const { rows } = await client.query<OpenBatch>({
    name: 'open-batch',
    text: `select batch.id, run_id, run.name as run, status, closed, samples, groups, group_size, reward, priority,
             text_bucket::text as bucket, implicit_key is not null as implicit, clock_timestamp() as now
           from batch join run on run.id = batch.run_id where batch.id = $1`,
    values: [id],
  })
  const batch = rows[0]
  if (!batch) throw new RewardOpsError('batch_not_found', `There is no batch ${name}.`)
  return batch
}

/** New uids get the next numbers; known ones are counted up, in order of their number as everywhere. */
async function appendGroups(
  client: Client,
  batch: OpenBatch,
  draft: BatchDraft,
): Promise<number[]> {
  const { rows } = await client.query<{ uid: string; no: number; received: number }>(
    `select uid, no, received from sample_group where batch_id = $1 and uid = any($2::text[])
     order by no for update`,
    [batch.id, draft.uids],
  )
  const known = new Map(rows.map((row) => [row.uid, row]))
  checkGroupSizes(draft, batch.group_size, (uid) => known.get(uid)?.received ?? 0)
  let next = batch.groups
  const groupNo = draft.uids.map((uid) => known.get(uid)?.no ?? next++)
  const grown = rows.map((row) => draft.uids.indexOf(row.uid))
  await client.query(
    `update sample_group g set received = g.received + t.received, ended = g.ended + t.ended
     from unnest($2::int[], $3::int[], $4::int[]) as t(no, received, ended)
     where g.batch_id = $1 and g.no = t.no`,
    [
      batch.id,
      rows.map((row) => row.no),
      grown.map((g) => draft.sizes[g]),
      grown.map((g) => draft.prescoredOf[g]),
    ],
  )
  const fresh = draft.uids.map((_, g) => g).filter((g) => !known.has(draft.uids[g] as string))
  await client.query(
    `insert into sample_group (batch_id, no, uid, received, ended)
     select $1, t.no, t.uid, t.received, t.ended
     from unnest($2::int[], $3::text[], $4::int[], $5::int[]) as t(no, uid, received, ended)`,
    [
      batch.id,
      fresh.map((g) => groupNo[g]),
      fresh.map((g) => draft.uids[g]),
      fresh.map((g) => draft.sizes[g]),
      fresh.map((g) => draft.prescoredOf[g]),
    ],
  )
  return groupNo
}

/** A repeated append must be what was stored; anything else at stored indexes is a conflict. */
async function checkRepetition(
  client: Client,
  batch: OpenBatch,
  startIndex: number,
  draft: BatchDraft,
  name: string,
): Promise<void> {
  const conflict = (why: string): never => {
    throw new RewardOpsError('append_conflict', `${name}: ${why}`)
  }
  if (startIndex + draft.count > batch.samples) {
    conflict(
      `samples ${startIndex} to ${batch.samples - 1} are stored already; the next index is ${batch.samples}.`,
    )
  }
  // Three walks along a key, put together here: joined without statistics, each of 5,000 samples looked through all groups of
  // its batch, and an import of a million rows that went on after a crash took six minutes instead of one.
  const range = [batch.id, startIndex, startIndex + draft.count]
  const { rows: samples } = await client.query<{ idx: number; group_no: number }>(
    `select idx, group_no from sample where batch_id = $1 and idx >= $2 and idx < $3 order by batch_id, idx`,
    range,
  )
  const { rows: texts } = await client.query<{ idx: number; prompt: string; response: string }>(
    `select idx, prompt, response from sample_text
     where bucket = $4 and batch_id = $1 and idx >= $2 and idx < $3 order by bucket, batch_id, idx`,
    [...range, batch.bucket],
  )
  const nos = samples.map((sample) => sample.group_no)
  const { rows: groups } = await client.query<{ no: number; uid: string }>(
    'select no, uid from sample_group where batch_id = $1 and no between $2 and $3 order by batch_id, no',
    [batch.id, least(nos), greatest(nos)],
  )
  const uids = new Map(groups.map(({ no, uid }) => [no, uid]))
  const textOf = new Map(texts.map((text) => [text.idx, text]))
  for (let i = 0; i < draft.count; i++) {
    const sample = samples[i]
    const row = sample && textOf.get(sample.idx)
    const uid = sample && uids.get(sample.group_no)
    const stored = row && Buffer.concat([lengthPrefixed(row.prompt), lengthPrefixed(row.response)])
    const sent = draft.textOf(i)
    if (!stored || uid !== draft.uidOf(i) || !sent.subarray(0, stored.length).equals(stored)) {
      conflict(`sample ${startIndex + i} is stored with other content.`)
    }
  }
}

function least(values: readonly number[]): number {
  return values.reduce((a, b) => Math.min(a, b), 2_147_483_647)
}

function greatest(values: readonly number[]): number {
  return values.reduce((a, b) => Math.max(a, b), 0)
}

function lengthPrefixed(text: string): Buffer {
  const bytes = Buffer.from(text)
  const length = Buffer.alloc(4)
  length.writeInt32BE(bytes.length)
  return Buffer.concat([length, bytes])
}
