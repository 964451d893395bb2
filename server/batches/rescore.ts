import { createHash } from 'node:crypto'
import { enforceLimits, foreseeLimits, limitsOf } from '../admin/run-limits.ts'
import type { RescoreResult, RescoreSomeInput } from '../contract/rescore.ts'
import { modelsOf } from '../contract/resolved-reward.ts'
import { RewardOpsError } from '../errors.ts'
import { managerNameOf } from '../rewards/resolve.ts'
import { notify } from '../store/channels.ts'
import { type Client, inTransaction } from '../store/database.ts'
import type { BatchRow } from '../store/sql/batches.ts'
import { storeFunctions } from '../store/sql/function-sources.ts'
import {
  beginCopy,
  copyGroups,
  copySamples,
  copyTexts,
  dataSourcesOf,
  insertRescored,
  type RolloutCopy,
  releaseCopy,
  samplesToCopy,
} from '../store/sql/rescore.ts'
import {
  copyPartGroups,
  copyPartSamples,
  copyPartTexts,
  dataSourcesOfPart,
  insertRescorePart,
  type PartToCopy,
  partToCopy,
} from '../store/sql/rescore-part.ts'
import { currentTextBucket } from '../store/text-partitions.ts'
import { type AcceptContext, duplicateOf, resolveRegistered } from './accept/accept-batch.ts'
import { ensurePool, poolOf, scoresWholeGroups } from './accept/jobs.ts'
import type { BatchReader } from './batch-reader.ts'
import { rescoreJobs } from './rescore-jobs.ts'
import { selectPart } from './rescore-selection.ts'

/**
 * Maximum number of rescores that copy at the same time. Further rescores are refused as `busy`. Each copy keeps a
 * connection and a core of Postgres busy.
 */
const MAX_COPIES = 2
/** Samples per query that reads groups and sizes. Such a query takes 5 ms of the event loop. */
const PAGE_SAMPLES = 4_096
/** Bytes of text copied per statement. A statement takes about 30 ms, so flushes of other batches run in between. */
const STATEMENT_BYTES = 4 << 20
const STATEMENT_ROWS = 1_024
const PAGE_GROUPS = 4_096

interface Copied {
  groupOf: Int32Array
  workOf: Float64Array
}

/**
 * Scores the rollouts of a batch again as a new batch. No query sees an incomplete batch. A sweep deletes the rows of
 * an interrupted copy.
 *
 *   nextval, lock ─▶ texts, samples, groups, chunk by chunk ─▶ batch and jobs in one transaction ─▶ unlock
 */
export class Rescores {
  readonly #accept: AcceptContext
  readonly #reader: BatchReader
  /** Calls in progress by key and content: a repeated call gets the result of the first. */
  readonly #underWay = new Map<string, Promise<RescoreResult>>()
  #copies = 0

  constructor(accept: AcceptContext, reader: BatchReader) {
    this.#accept = accept
    this.#reader = reader
  }

  /**
   * Resolves when the new batch is committed.
   * Throws `batch_not_found`, `batch_open`, `empty_batch`, `removed_by_retention`, `busy`, `run_queue_full`,
   * `run_limit`, `idempotency_conflict`, and the errors of `resolveRegistered` and `selectPart`.
   */
  async rescore(input: RescoreSomeInput): Promise<RescoreResult> {
    const { idempotencyKey } = input
    if (!idempotencyKey) return this.#rescore(input, null)
    const hash = createHash('sha256')
      .update(
        JSON.stringify({
          ...{ rescore: input.batchId, reward: input.reward },
          ...(input.select === undefined ? {} : { select: input.select }),
        }),
      )
      .digest()
    const known = await duplicateOf(this.#accept.db, idempotencyKey, hash)
    if (known) return known
    const name = `${hash.toString('hex')} ${idempotencyKey}`
    const before = this.#underWay.get(name)
    if (before) return { ...(await before), duplicate: true }
    const now = this.#rescore(input, hash).finally(() => this.#underWay.delete(name))
    this.#underWay.set(name, now)
    return now
  }

  async #rescore(input: RescoreSomeInput, hash: Buffer | null): Promise<RescoreResult> {
    const batch = await this.#reader.row(input.batchId)
    if (!batch.closed) {
      throw new RewardOpsError('batch_open', `${input.batchId} is open: more samples may follow.`)
    }
    if (batch.samples === 0) {
      throw new RewardOpsError('empty_batch', `${input.batchId} has no samples.`, {
        hint: 'Rescore a batch that has samples.',
      })
    }
    if (batch.texts_removed_at !== null) throw textsRemoved(input.batchId)
    const { db, queue } = this.#accept
    const wholeGroups = scoresWholeGroups({ manager: managerNameOf(input.reward) })
    const part =
      input.select === undefined ? null : await selectPart(db, batch, input.select, wholeGroups)
    const dataSources =
      part === null
        ? await dataSourcesOf(db, batch.id)
        : await dataSourcesOfPart(db, batch.id, part.idx)
    const { reward, rewardName, sources } = await resolveRegistered(
      this.#accept,
      input.reward,
      dataSources,
    )
    const limits = await limitsOf(db, batch.run)
    const adds = { samples: part?.idx.length ?? batch.samples, batches: 1 }
    await foreseeLimits(db, limits, batch.run, adds)
    const pool = poolOf(reward)
    await ensurePool(db, queue, pool, reward)
    const toBucket = await currentTextBucket(db)
    const copied = await this.#holding(async (client) => {
      const copy = await this.#begin(client, batch, toBucket)
      const made: Omit<RescoreResult, 'duplicate'> = {
        batchId: `b${copy.toId}`,
        accepted: part?.idx.length ?? batch.samples,
        groups: part?.groups.length ?? batch.groups,
        ...(part && {
          selected: part.selected,
          addedGroupMembers: part.idx.length - part.selected,
        }),
      }
      try {
        const { groupOf, workOf } =
          part === null
            ? await copyRollouts(client, copy, batch)
            : await copyPart(client, copy, part)
        await inTransaction(client, async () => {
          await storeFunctions(client, sources)
          await enforceLimits(client, limits, { id: batch.run_id, name: batch.run }, adds)
          const { submitted_at } = await insertRescored(client, copy, {
            reward: JSON.stringify(reward),
            rewardName,
            idempotencyKey: input.idempotencyKey ?? null,
            contentHash: hash,
            part: part && {
              samples: part.idx.length,
              groups: part.groups.length,
              wholeGroups: input.select?.wholeGroups === true || wholeGroups,
            },
          })
          if (part !== null) await insertRescorePart(client, copy, part)
          const jobs = rescoreJobs({
            batchId: copy.toId,
            nowMs: submitted_at.getTime(),
            groupOf,
            workOf: modelsOf(reward).length > 0 ? workOf : null,
            wholeGroups,
          })
          for (const window of jobs)
            await queue.insert(pool, window, { run: batch.run, priority: 0, client })
          await notify(client, 'batchChanged', copy.toId)
        })
      } catch (error) {
        const e = error as { code?: string; constraint?: string }
        // The sweep deletes the copied rows once the copy's lock is free. A thrown error closes the connection, which
        // frees the lock; otherwise `releaseCopy` frees it.
        if (!hash || e.code !== '23505' || e.constraint !== 'batch_idempotency_key_key') throw error
        await releaseCopy(client, copy.toId)
        return { repeated: error }
      }
      await releaseCopy(client, copy.toId)
      return { ...made, duplicate: false }
    })
    if (!('repeated' in copied)) return copied
    // This query runs after the copy has returned its connection, because the pool may have no other connection.
    const known = await duplicateOf(db, input.idempotencyKey, hash)
    if (!known) throw copied.repeated
    return known
  }

  async #begin(client: Client, batch: BatchRow, toBucket: string): Promise<RolloutCopy> {
    const toId = await beginCopy(client, batch.id, toBucket)
    if (toId === null) throw textsRemoved(`b${batch.id}`)
    return { fromId: batch.id, fromBucket: batch.text_bucket, toId, toBucket }
  }

  /** Runs `work` on a separate connection, which holds the copy's lock. Throws `busy`. */
  async #holding<T>(work: (client: Client) => Promise<T>): Promise<T> {
    if (this.#copies >= MAX_COPIES) {
      throw new RewardOpsError('busy', `${MAX_COPIES} batches are already being rescored.`, {
        retryAfterMs: 1_000,
      })
    }
    this.#copies++
    try {
      return await this.#accept.db.holding(work)
    } finally {
      this.#copies--
    }
  }
}

function textsRemoved(what: string): RewardOpsError {
  return new RewardOpsError(
    'removed_by_retention',
    `The texts of ${what} were removed by retention.`,
    {
      hint: 'Submit the rollouts again. Rescoring needs their texts.',
    },
  )
}

async function copyPart(client: Client, copy: RolloutCopy, part: PartToCopy): Promise<Copied> {
  const groupOf = Int32Array.from(part.groupNo)
  const workOf = new Float64Array(part.idx.length)
  for (let from = 0; from < part.idx.length; from += STATEMENT_ROWS) {
    const to = Math.min(part.idx.length, from + STATEMENT_ROWS) - 1
    let begun = from
    let bytes = 0
    for (const row of await partToCopy(client, copy, part, from, to)) {
      if (row.work === null) throw textsRemoved(`b${copy.fromId}-${part.idx[row.idx]}`)
      workOf[row.idx] = row.work
      bytes += row.bytes as number
      if (bytes < STATEMENT_BYTES && row.idx < to) continue
      await copyPartTexts(client, copy, part, begun, row.idx)
      begun = row.idx + 1
      bytes = 0
    }
    await copyPartSamples(client, copy, part, from, to)
  }
  await copyPartGroups(client, copy, part)
  return { groupOf, workOf }
}

async function copyRollouts(client: Client, copy: RolloutCopy, batch: BatchRow): Promise<Copied> {
  const groupOf = new Int32Array(batch.samples)
  const workOf = new Float64Array(batch.samples)
  for (let from = 0; from < batch.samples; from += PAGE_SAMPLES) {
    const to = Math.min(batch.samples, from + PAGE_SAMPLES) - 1
    const rows = await samplesToCopy(client, copy, from, to)
    let begun = from
    let bytes = 0
    for (const row of rows) {
      if (row.work === null) {
        throw textsRemoved(`b${copy.fromId}-${row.idx}`)
      }
      groupOf[row.idx] = row.group_no
      workOf[row.idx] = row.work
      bytes += row.bytes as number
      if (bytes < STATEMENT_BYTES && row.idx - begun + 1 < STATEMENT_ROWS && row.idx < to) continue
      await copyTexts(client, copy, begun, row.idx)
      begun = row.idx + 1
      bytes = 0
    }
    await copySamples(client, copy, from, to)
  }
  for (let from = 0; from < batch.groups; from += PAGE_GROUPS)
    await copyGroups(client, copy, from, from + PAGE_GROUPS - 1)
  return { groupOf, workOf }
}
