import { checkPriority, enforceLimits, limitsOf, limitsReader } from '../../admin/run-limits.ts'
import { modelsOf, type ResolvedReward } from '../../contract/resolved-reward.ts'
import type {
  AppendResult,
  RewardSpec,
  SubmitEnvelope,
  SubmitResult,
} from '../../contract/trainer.ts'
import { RewardOpsError } from '../../errors.ts'
import type { AcceptedFunctions } from '../../rewards/functions/accepted-functions.ts'
import type { FunctionSource } from '../../rewards/functions/function-source.ts'
import { checkRulesForMore, requireSandbox, resolveReward } from '../../rewards/resolve.ts'
import type { SandboxAccess } from '../../rewards/sandboxes.ts'
import { notify } from '../../store/channels.ts'
import { copyIn } from '../../store/copy-in.ts'
import type { Client, Database } from '../../store/database.ts'
import { INTERACTIVE_POOL, type JobQueue } from '../../store/job-queue.ts'
import { batchOfKey, holdRun, insertBatch, insertGroups, runNamed } from '../../store/sql/accept.ts'
import {
  type AppendedBatch,
  addGroups,
  batchToAppendTo,
  countAppended,
  groupsToGrow,
  growGroups,
  lockBatch,
  storedSamples,
} from '../../store/sql/append.ts'
import { settleBatch } from '../../store/sql/end-batch.ts'
import { storeFunctions } from '../../store/sql/function-sources.ts'
import { storeImages } from '../../store/sql/images.ts'
import { servedModels } from '../../store/sql/servers.ts'
import type { ImagePolicy } from '../../store/stored-images.ts'
import { currentTextBucket, textPartition } from '../../store/text-partitions.ts'
import { activeTrace, type TraceContext } from '../../trace-context.ts'
import { batchNumber } from '../batch-reader.ts'
import { type BatchDraft, SAMPLE_COPY_COLUMNS, TEXT_COPY_COLUMNS } from './batch-draft.ts'
import {
  chunk,
  ensurePool,
  poolOf,
  queueFilledGroups,
  refuseSingles,
  scoresWholeGroups,
  wholeGroupJobs,
} from './jobs.ts'

/** Texts of a large body that were sent to Postgres while the body arrived. Their transaction is still open. */
export interface EarlyTexts {
  client: Client
  batchId: number
  bucket: string
  /** Sends the remaining texts and ends their COPY. */
  finish(draft: BatchDraft): Promise<void>
}

/** Dependencies for accepting batches, on the server's event loop or in the ingest thread. */
export interface AcceptContext {
  db: Database
  queue: JobQueue
  functions: AcceptedFunctions
  images: () => ImagePolicy
  sandboxes: SandboxAccess
  /** The trace of a body in the ingest thread. If absent, the trace of the current request applies. */
  trace?: TraceContext | null
}

const runIds = new Map<string, number>()

async function runId(db: Database, name: string): Promise<number> {
  const known = runIds.get(name)
  if (known !== undefined) return known
  const id = await runNamed(db, name)
  if (runIds.size > 10_000) runIds.clear()
  runIds.set(name, id)
  return id
}

/**
 * Resolves a reward against the current function files and registered servers. `sources` are the functions'
 * files, to be stored with the batch. Throws the errors of `resolveReward` and `AcceptedFunctions.resolve`.
 */
export async function resolveRegistered(
  { db, functions, sandboxes }: AcceptContext,
  spec: RewardSpec,
  dataSources: readonly string[],
): Promise<{ reward: ResolvedReward; rewardName: string; sources: FunctionSource[] }> {
  const { versions, sources } = await functions.resolve(spec)
  const usesModels = [spec, ...(spec.combine ?? []).map((component) => component.reward)].some(
    ({ model }) => model !== null,
  )
  const served = usesModels ? await servedModels(db) : []
  const models = (kind: string) => served.filter((row) => row.kind === kind).map((row) => row.model)
  const resolved = resolveReward(spec, dataSources, {
    functions: versions,
    models: models('discriminative'),
    judges: models('generative'),
    sleepless: served.filter((row) => !row.may_sleep).map((row) => row.model),
    sandboxes: sandboxes.named,
  })
  await requireSandbox(resolved.reward, sandboxes.local)
  return { ...resolved, sources }
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
 * Accepts a whole batch in one transaction: batch, groups, samples, texts and jobs are stored together or not at all.
 * Resolves after the commit. Throws RewardOpsError, and then nothing is stored.
 */
export async function acceptBatch(
  context: AcceptContext,
  envelope: SubmitEnvelope,
  draft: BatchDraft,
  options: {
    implicitKey?: string
    early?: EarlyTexts
    /** Data sources of samples that will be appended. Data sources without a rule are refused now. */
    dataSources?: readonly string[]
  } = {},
): Promise<SubmitResult> {
  const { db, queue } = context
  const { early, implicitKey = null } = options
  if (draft.count === 0 && !envelope.open) {
    throw new RewardOpsError('empty_batch', '"samples" is empty and the batch is not open.')
  }
  draft.checkIndexes(0)
  checkGroupSizes(draft, envelope.groupSize, () => 0)
  const contentHash = envelope.idempotencyKey ? draft.contentHash(envelope) : null
  // The check for a repeated submit precedes all checks of the current state. A repeated submit thus succeeds even if a
  // model or function was removed since the first one.
  const known = await duplicateOf(db, envelope.idempotencyKey, contentHash)
  if (known) return known
  const dataSources = [...new Set([...draft.dataSources.keys(), ...(options.dataSources ?? [])])]
  const { reward, rewardName, sources } = await resolveRegistered(
    context,
    envelope.reward,
    dataSources,
  )
  if (implicitKey !== null) refuseSingles(reward)
  const limits = await limitsOf(db, envelope.run)
  checkPriority(limits, envelope)
  const knownRun = await runId(db, envelope.run)
  const bucket = early?.bucket ?? (await currentTextBucket(db))
  const pool = implicitKey === null ? poolOf(reward) : INTERACTIVE_POOL
  await ensurePool(db, queue, pool, reward)
  const store = async (client: Client): Promise<SubmitResult> => {
    await storeFunctions(client, sources)
    const run = await holdRun(client, knownRun, envelope.run)
    if (run !== knownRun) runIds.delete(envelope.run)
    await enforceLimits(
      client,
      limits,
      { id: run, name: envelope.run },
      { samples: draft.count - draft.prescored, batches: 1 },
    )
    const { id: batchId, now } = await insertBatch(client, envelope, {
      id: early?.batchId ?? null,
      runId: run,
      reward,
      rewardName,
      samples: draft.count,
      scored: draft.prescored,
      groups: draft.uids.length,
      implicitKey,
      contentHash,
      bucket,
      trace: context.trace ?? activeTrace.getStore()?.trace ?? null,
    })
    const nowMs = now.getTime()
    await insertGroups(client, batchId, {
      uids: draft.uids,
      received: draft.sizes,
      ended: draft.prescoredOf,
      promptKeys: draft.promptKeys,
    })
    const groupNo = draft.uids.map((_, local) => local)
    await storeSamples(
      client,
      draft,
      { batchId, startIndex: 0, bucket, groupNo, nowMs },
      early !== undefined,
    )
    const jobs = scoresWholeGroups(reward)
      ? wholeGroupJobs(draft.groupsToScore(envelope.open ? envelope.groupSize : 0), batchId, nowMs)
      : chunk(
          draft.toScore(),
          (i) => draft.groupOf[i] as number,
          batchId,
          nowMs,
          modelsOf(reward).length > 0 ? (i) => draft.charsOf[i] as number : undefined,
        )
    await queue.insert(pool, jobs, { run: envelope.run, priority: envelope.priority, client })
    if (draft.prescored > 0) await settleBatch(client, batchId)
    await storeImages(client, batchId, draft.images)
    await notify(client, 'batchChanged', batchId)
    return {
      batchId: `b${batchId}`,
      accepted: draft.count,
      groups: draft.uids.length,
      duplicate: false,
    }
  }
  try {
    await early?.finish(draft)
    const result = await (early ? store(early.client) : db.transaction(store))
    draft.release()
    return result
  } catch (error) {
    // If two submits with the same key run concurrently, the second one returns the batch of the first.
    const e = error as { code?: string; constraint?: string }
    if (e.code === '23505' && e.constraint === 'batch_idempotency_key_key') {
      const known = await duplicateOf(db, envelope.idempotencyKey, contentHash)
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

/**
 * Returns the batch that was accepted with this key, or null. Throws `idempotency_conflict` if its content
 * differs.
 */
export async function duplicateOf(
  db: Database,
  key: string | null | undefined,
  hash: Buffer | null,
): Promise<SubmitResult | null> {
  if (!key || !hash) return null
  const row = await batchOfKey(db, key)
  if (!row) return null
  if (!hash.equals(row.content_hash)) {
    throw new RewardOpsError(
      'idempotency_conflict',
      `idempotencyKey "${key}" belongs to batch b${row.id}, which has different content.`,
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

export interface AppendAt {
  batchId: string
  startIndex: number
}

/**
 * Appends samples to an open batch in one transaction. A repeated append changes nothing. Throws `append_gap`,
 * `append_conflict` if other samples are stored at these indexes, `batch_closed`, and the errors of invalid samples.
 */
export async function appendToBatch(
  context: AcceptContext,
  envelope: AppendAt,
  draft: BatchDraft,
): Promise<AppendResult> {
  const { db, queue } = context
  const batchId = batchNumber(envelope.batchId)
  const readLimits = await limitsReader(db)
  const result = await db.transaction(async (client) => {
    await lockBatch(client, batchId)
    const batch = await batchToAppendTo(client, batchId)
    if (!batch) {
      throw new RewardOpsError('batch_not_found', `There is no batch ${envelope.batchId}.`)
    }
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
    if (batch.closed) throw batchClosed(envelope.batchId, batch.status)
    checkRulesForMore([...draft.dataSources.keys()], batch.reward)
    await enforceLimits(
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
    const isCounted = await countAppended(client, batchId, {
      samples: draft.count,
      scored: draft.prescored,
      groups: Math.max(batch.groups, ...groupNo.map((no) => no + 1)),
    })
    if (!isCounted) throw batchClosed(envelope.batchId, 'failed')
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
    // Without a group size, no group completes before the batch is closed, so settling would read all finished samples
    // at every append and change nothing.
    if (draft.prescored > 0 && batch.group_size !== null) {
      await settleBatch(client, batchId)
    }
    await storeImages(client, batchId, draft.images)
    await notify(client, 'batchChanged', batchId)
    return {
      batchId: envelope.batchId,
      accepted: draft.count,
      samples: batch.samples + draft.count,
    }
  })
  draft.release()
  return result
}

function batchClosed(batchId: string, status: string): RewardOpsError {
  return new RewardOpsError('batch_closed', `${batchId} is ${status} and takes no more samples.`)
}

/**
 * Adds groups for new uids and grows the existing groups, which are locked in the order of their numbers. Maps each
 * group of the draft to its number within the batch.
 */
async function appendGroups(
  client: Client,
  batch: AppendedBatch,
  draft: BatchDraft,
): Promise<number[]> {
  const rows = await groupsToGrow(client, batch.id, draft.uids)
  const known = new Map(rows.map((row) => [row.uid, row]))
  checkGroupSizes(draft, batch.group_size, (uid) => known.get(uid)?.received ?? 0)
  let next = batch.groups
  const groupNo = draft.uids.map((uid) => known.get(uid)?.no ?? next++)
  const grown = rows.map((row) => draft.uids.indexOf(row.uid))
  const of = <T>(list: readonly T[], groups: readonly number[]) => groups.map((g) => list[g] as T)
  await growGroups(client, batch.id, {
    nos: rows.map((row) => row.no),
    received: of(draft.sizes, grown),
    ended: of(draft.prescoredOf, grown),
  })
  const fresh = draft.uids.map((_, g) => g).filter((g) => !known.has(draft.uids[g] as string))
  await addGroups(client, batch.id, {
    nos: of(groupNo, fresh),
    uids: of(draft.uids, fresh),
    received: of(draft.sizes, fresh),
    ended: of(draft.prescoredOf, fresh),
    promptKeys: of(draft.promptKeys, fresh),
  })
  return groupNo
}

/** Throws `append_conflict` if the samples of a repeated append differ from the stored ones. */
async function checkRepetition(
  client: Client,
  batch: AppendedBatch,
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
  const samples = await storedSamples(client, batch, startIndex, startIndex + draft.count)
  for (let i = 0; i < draft.count; i++) {
    const stored = samples[i]
    if (stored === undefined || !draft.isStored(i, stored)) {
      conflict(`sample ${startIndex + i} is stored with other content.`)
    }
  }
}
