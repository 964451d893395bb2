import type { GroupSignalCounts } from '../contract/group-signal.ts'
import { RESULT_FIELDS, withFields } from '../contract/sample-fields.ts'
import type {
  BatchSummary,
  GroupResult,
  NextResult,
  ResultsColumns,
  ResultsInput,
} from '../contract/trainer.ts'
import { RewardOpsError } from '../errors.ts'
import { Memo } from '../memo.ts'
import { groupReport } from '../rewards/group-report.ts'
import { type Database, isOutage } from '../store/database.ts'
import { type BatchRow, batchById, scoreStatistics, toSummary } from '../store/sql/batches.ts'
import { membersOfGroups } from '../store/sql/group-statistics.ts'
import {
  completedGroups,
  membersBefore,
  positionOf,
  type ResultRow,
  type SampleColumnLists,
  sampleColumns,
  samplesDelivered,
  samplesOfGroups,
  toResult,
} from '../store/sql/results.ts'
import type { SampleKey } from '../store/sql/sample-texts.ts'
import { cursorAt, seqOf } from './cursor.ts'
import { countSignals, memberOf, reportsOf } from './group-reports.ts'
import type { BatchSignals } from './signals.ts'

/** Parses a batch id: `b12` → 12. Throws `batch_not_found` for a number beyond int4. */
export function batchNumber(batchId: string): number {
  const id = Number(batchId.slice(1))
  if (id > 2_147_483_647)
    throw new RewardOpsError('batch_not_found', `There is no batch ${batchId}.`)
  return id
}

/** Parses a sample id: `b12-3` → batch 12, index 3. Throws `batch_not_found` for a batch beyond int4. */
export function sampleKey(sampleId: string): SampleKey {
  const [batch, index] = sampleId.split('-') as [string, string]
  return { batch_id: batchNumber(batch), idx: Number(index) }
}

/** Retry interval of a long poll while the database is unavailable. */
const OUTAGE_PAUSE_MS = 200

export class BatchReader {
  readonly #db: Database
  readonly #signals: BatchSignals
  readonly #statistics = new Memo<Awaited<ReturnType<typeof scoreStatistics>>>(500)
  readonly #signalCounts = new Memo<GroupSignalCounts>(2_000)

  constructor(db: Database, signals: BatchSignals) {
    this.#db = db
    this.#signals = signals
  }

  /** Throws `batch_not_found`. */
  async row(batchId: string): Promise<BatchRow> {
    const row = await batchById(this.#db, batchNumber(batchId))
    if (!row) throw new RewardOpsError('batch_not_found', `There is no batch ${batchId}.`)
    return row
  }

  /** Returns the batch's row if its samples are still stored. Throws `batch_not_found`, `removed_by_retention`. */
  async rowWithSamples(batchId: string): Promise<BatchRow> {
    const row = await this.row(batchId)
    if (row.samples_removed_at === null) return row
    throw new RewardOpsError(
      'removed_by_retention',
      `The samples of ${batchId} are no longer kept.`,
    )
  }

  /** Returns the batch's summary. Until the roll-up exists, the statistics are computed, at most twice a second. */
  async summaryOf(row: BatchRow): Promise<BatchSummary> {
    const summary = toSummary(row)
    if (row.min === null && row.scored > 0) {
      const fresh = row.completed_at === null ? `${row.id}` : `${row.id} ended`
      Object.assign(
        summary,
        await this.#statistics.get(fresh, () => scoreStatistics(this.#db, row.id)),
      )
    }
    if (row.completed_at !== null && row.group_signals === null)
      summary.groupSignals = await this.signalCounts(row)
    return summary
  }

  async signalCounts(row: BatchRow): Promise<GroupSignalCounts> {
    const count = () => countSignals(this.#db, row.id, row.reward)
    if (row.completed_at === null) return count()
    return row.group_signals ?? this.#signalCounts.get(`${row.id}`, count)
  }

  async summary(batchId: string): Promise<BatchSummary> {
    return this.summaryOf(await this.row(batchId))
  }

  async wait(batchId: string, waitMs: number, signal?: AbortSignal): Promise<BatchSummary> {
    const until = performance.now() + waitMs
    for (;;) {
      const row = await this.#duringOutage(until, signal, () => this.row(batchId))
      if (row === null) continue
      const leftMs = until - performance.now()
      const over = leftMs <= 0 || signal?.aborted || this.#signals.stopped
      if (row.completed_at !== null || over) return this.summaryOf(row)
      await this.#signals.wait(row.id, leftMs, signal)
    }
  }

  /** Returns whole groups after the cursor, in order of completion: `batches.next`. */
  async next(
    input: { batchId: string; after: string | null; samples: number; waitMs: number },
    signal?: AbortSignal,
  ): Promise<NextResult> {
    const id = batchNumber(input.batchId)
    const after = seqOf(input.after, id)
    const until = performance.now() + input.waitMs
    for (;;) {
      const page = await this.#duringOutage(until, signal, () =>
        this.#page(id, after, until, input, signal),
      )
      if (page !== null) return page
    }
  }

  /**
   * Runs a read. If the database is unavailable and time is left, returns null after a pause, so that the caller
   * retries and a long poll outlives the outage.
   */
  async #duringOutage<T>(
    until: number,
    signal: AbortSignal | undefined,
    read: () => Promise<T>,
  ): Promise<T | null> {
    try {
      return await read()
    } catch (error) {
      const isOver = until - performance.now() <= OUTAGE_PAUSE_MS
      if (!isOutage(error) || isOver || signal?.aborted || this.#signals.stopped) throw error
      await new Promise((resolve) => setTimeout(resolve, OUTAGE_PAUSE_MS))
      return null
    }
  }

  /** Returns the result of `next`, or null after a wait, so that the caller reads again. */
  async #page(
    id: number,
    after: number,
    until: number,
    input: { batchId: string; samples: number },
    signal?: AbortSignal,
  ): Promise<NextResult | null> {
    const batch = await this.rowWithSamples(input.batchId)
    if (after > batch.groups_completed) {
      throw new RewardOpsError(
        'cursor_mismatch',
        `The cursor is at group ${after}, but ${input.batchId} has completed ${batch.groups_completed}.`,
      )
    }
    const ended = batch.completed_at !== null
    const groups = await completedGroups(this.#db, id, after, input.samples)
    const inHand = groups.reduce((n, g) => n + g.received, 0)
    const leftMs = until - performance.now()
    if (inHand >= input.samples || ended) {
      const delivered = await this.#groupResults(batch, groups)
      const seq = groups.at(-1)?.seq ?? after
      const before = await samplesDelivered(this.#db, id, after)
      const remaining = batch.samples - before - inHand
      // The batch may have ended between the two reads, with the last of these groups. Reading the batch again reports
      // its end in this answer, so the caller needs no further call.
      const now = ended || remaining > 0 ? batch : await this.row(input.batchId)
      return {
        groups: delivered,
        cursor: cursorAt(id, seq),
        delivered: inHand,
        remaining,
        done: now.completed_at !== null && seq >= now.groups_completed,
        timedOut: false,
      }
    }
    if (leftMs <= 0 || signal?.aborted || this.#signals.stopped) {
      const before = await samplesDelivered(this.#db, id, after)
      return {
        groups: [],
        cursor: cursorAt(id, after),
        delivered: 0,
        remaining: batch.samples - before,
        done: false,
        timedOut: true,
      }
    }
    await this.#signals.wait(id, leftMs, signal)
    return null
  }

  async #groupResults(
    batch: BatchRow,
    groups: { no: number; uid: string; seq: number; completed_at: Date }[],
  ): Promise<GroupResult[]> {
    if (groups.length === 0) return []
    const rows = await samplesOfGroups(this.#db, batch.id, groups)
    const byGroup = new Map<number, ResultRow[]>()
    for (const row of rows) {
      const list = byGroup.get(row.group_no)
      if (list) list.push(row)
      else byGroup.set(row.group_no, [row])
    }
    return groups.map((group) => {
      const members = byGroup.get(group.no) ?? []
      const { mean, std, signal, advantages } = groupReport(members.map(memberOf), batch.reward)
      return {
        uid: group.uid,
        seq: group.seq,
        completedAt: group.completed_at.toISOString(),
        mean,
        std,
        signal,
        samples: members.map((row, at) => ({
          ...toResult(row),
          advantage: advantages[at] as number | null,
        })),
      }
    })
  }

  async results(input: ResultsInput): Promise<ResultsColumns> {
    const batch = await this.rowWithSamples(input.batchId)
    const rows = await sampleColumns(this.#db, batch.id, input)
    const keys: string[] = []
    const columns: Record<string, unknown[]> = {}
    rows.reward_extra.forEach((extra, at) => {
      for (const key in extra) {
        let column = columns[key]
        if (!column) {
          column = columns[key] = new Array(rows.idx.length).fill(null)
          keys.push(key)
        }
        column[at] = extra[key] ?? null
      }
    })
    const results = {
      index: rows.idx,
      uid: rows.uid,
      status: rows.status,
      reason: rows.reason,
      score: rows.score,
      rawScore: rows.raw_score,
      substituted: rows.substituted,
      rewardExtraKeys: keys,
      rewardExtraInfo: columns,
      verdict: rows.verdict,
      extracted: rows.extracted,
      rewards: rows.rewards,
      position: rows.response_length.map(positionOf),
      advantage: await this.#advantages(batch, input.offset, rows),
    }
    return withFields(results, rows, RESULT_FIELDS)
  }

  /**
   * Returns the advantages of the samples of a page. They come from the roll-ups of the groups or, before these exist,
   * are computed from the scores of completed groups.
   */
  async #advantages(
    batch: BatchRow,
    offset: number,
    page: SampleColumnLists,
  ): Promise<(number | null)[]> {
    const done = [...page.groups.values()].filter((group) => group.seq !== null)
    if (done.length === 0) return page.idx.map(() => null)
    const unknown = done
      .flatMap((group) => (group.advantages === null ? [group.no] : []))
      .sort((a, b) => a - b)
    // Trainers usually read all samples of an ended batch in one page, which then contains all members of its groups.
    const whole = offset === 0 && page.idx.length === batch.samples
    const [place, members] = await Promise.all([
      membersBefore(this.#db, batch.id, offset),
      unknown.length === 0
        ? { group_no: [], status: [], score: [], substituted: [] }
        : whole
          ? { ...page, status: page.stored_status }
          : membersOfGroups(this.#db, batch.id, unknown[0] as number, unknown.at(-1) as number),
    ])
    const reports = reportsOf(members, batch.reward)
    return page.group_no.map((no) => {
      const at = place.get(no) ?? 0
      place.set(no, at + 1)
      const group = page.groups.get(no)
      if (group === undefined || group.seq === null) return null
      const advantages = group.advantages ?? reports.get(no)?.advantages
      return advantages?.[at] ?? null
    })
  }
}
