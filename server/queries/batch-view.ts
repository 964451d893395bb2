import type { BatchReader } from '../batches/batch-reader.ts'
import { lacksCorrectness, memberOf } from '../batches/group-reports.ts'
import { withoutCorrectness } from '../contract/group-signal.ts'
import type {
  BatchGroupDto,
  BatchProgressDto,
  BatchViewDto,
  Distribution,
} from '../contract/pages.ts'
import type { Page } from '../contract/trainer.ts'
import { Memo } from '../memo.ts'
import { groupReport } from '../rewards/group-report.ts'
import type { Database } from '../store/database.ts'
import {
  batchBreakdown,
  completionCurve,
  distinctScores,
  groupMembers,
  groupsPage,
  scoreHistogram,
} from '../store/sql/batch-view.ts'
import { type BatchRow, listBatches, liveBatches, toSummary } from '../store/sql/batches.ts'
import { rescoresOf } from '../store/sql/rescore.ts'
import type { RateMeter } from './rate-meter.ts'

/** Largest number of distinct values shown as bars; more are shown as a histogram of {@link BINS} bins. */
const MAX_BARS = 12
const BINS = 40
const MAX_CURVE_POINTS = 200
const MAX_RESCORES = 50
const RUNNING_TTL_MS = 700
/**
 * Maximum age of sums over a running batch's samples. Computing them takes 100 ms or more during scoring, so pages show
 * the previous sums in the meantime. Pages poll every 2 s even without changes, so the final sums appear too.
 */
const RUNNING_STALE_MS = 2_000
const ENDED_TTL_MS = 10_000

export class BatchViews {
  readonly #db: Database
  readonly #reader: BatchReader
  readonly #rates: RateMeter
  readonly #running = new Memo<Omit<BatchViewDto, 'rescores'>>(RUNNING_TTL_MS, RUNNING_STALE_MS)
  readonly #ended = new Memo<Omit<BatchViewDto, 'rescores'>>(ENDED_TTL_MS)
  readonly #groups = new Memo<Page<BatchGroupDto>>(RUNNING_TTL_MS)

  constructor(db: Database, reader: BatchReader, rates: RateMeter) {
    this.#db = db
    this.#reader = reader
    this.#rates = rates
  }

  async view(batchId: string): Promise<BatchViewDto> {
    const row = await this.#reader.row(batchId)
    const memo = row.completed_at === null ? this.#running : this.#ended
    const [view, rescores] = await Promise.all([
      // The cache key includes whether the roll-up exists, because a batch gets its roll-up some time after its end.
      memo.get(
        `${row.id} ${row.min === null} ${row.texts_removed_at} ${row.samples_removed_at}`,
        () => this.#compute(row),
      ),
      // Rescores are not cached, so that a new one appears immediately.
      rescoresOf(this.#db, row.id, MAX_RESCORES),
    ])
    // The progress is cheap and always fresh; sums over samples are cached.
    const { status, samples, scored, failed, groups, groupsCompleted, retries } = toSummary(row)
    const now = { status, samples, scored, failed, groups, groupsCompleted, retries }
    return {
      ...view,
      ...(row.completed_at === null && now),
      rescores: rescores.map((id) => `b${id}`),
    }
  }

  async #compute(row: BatchRow): Promise<Omit<BatchViewDto, 'rescores'>> {
    const [progress, breakdown, distribution, groupSignals, curve] = await Promise.all([
      this.progress(row),
      batchBreakdown(this.#db, row.id),
      this.#distribution(row.id),
      this.#reader.signalCounts(row),
      completionCurve(this.#db, row.id, MAX_CURVE_POINTS),
    ])
    const submittedMs = row.submitted_at.getTime()
    return {
      ...progress,
      reward: { ...row.reward },
      groupSize: row.group_size,
      priority: row.priority,
      deadlineAt: row.deadline_at?.toISOString() ?? null,
      textsRemovedAt: row.texts_removed_at?.toISOString() ?? null,
      samplesRemovedAt: row.samples_removed_at?.toISOString() ?? null,
      open: !row.closed,
      dataSources: breakdown.data_sources ?? [],
      failures: breakdown.failures ?? [],
      distribution,
      groupSignals,
      queueMsP50: breakdown.queue_p50,
      queueMsP95: breakdown.queue_p95,
      scoreMsP50: breakdown.score_p50,
      scoreMsP95: breakdown.score_p95,
      servers: breakdown.servers ?? [],
      completion: curve.map((c) => ({ ms: c.completed_at.getTime() - submittedMs, groups: c.seq })),
    }
  }

  async progress(row: BatchRow): Promise<BatchProgressDto> {
    const summary = await this.#reader.summaryOf(row)
    const ended = row.completed_at !== null
    const rate = ended ? 0 : this.#rates.rate(row.id, row.scored + row.failed)
    const left = row.samples - row.scored - row.failed
    return {
      ...summary,
      samplesPerSecond: rate,
      etaMs: ended || !row.closed || rate <= 0 ? null : (left / rate) * 1_000,
    }
  }

  async list(input: {
    run?: string | undefined
    status?: string | undefined
    split?: string | undefined
    ended?: boolean | undefined
    rescored?: boolean | undefined
    cursor?: string | null | undefined
    limit: number
  }): Promise<Page<BatchProgressDto>> {
    const match = /^b(\d{1,9})$/.exec(input.cursor ?? '')
    const rows = await listBatches(this.#db, {
      run: input.run,
      status: input.status,
      split: input.split,
      ended: input.ended,
      rescored: input.rescored,
      beforeId: match ? Number(match[1]) : null,
      limit: input.limit + 1,
    })
    const page = rows.slice(0, input.limit)
    return {
      items: await Promise.all(page.map((row) => this.progress(row))),
      nextCursor: rows.length > input.limit ? `b${page.at(-1)!.id}` : null,
    }
  }

  async active(limit: number): Promise<BatchProgressDto[]> {
    const rows = await liveBatches(this.#db, limit)
    return Promise.all(rows.map((row) => this.progress(row)))
  }

  async #distribution(id: number): Promise<Distribution> {
    const values = await distinctScores(this.#db, id, MAX_BARS)
    if (values.length <= MAX_BARS) {
      return {
        kind: 'bars',
        n: values.reduce((n, v) => n + v.count, 0),
        bins: values.map((v) => ({ from: v.score, to: v.score, count: v.count })),
      }
    }
    const rows = await scoreHistogram(this.#db, id, BINS)
    const { lo, hi } = rows[0]!
    const counts = new Map(rows.map((r) => [r.bin, r.count]))
    const width = (hi - lo) / BINS
    return {
      kind: 'histogram',
      n: rows.reduce((n, r) => n + r.count, 0),
      bins: Array.from({ length: BINS }, (_, i) => ({
        from: lo + i * width,
        to: i === BINS - 1 ? hi : lo + (i + 1) * width,
        count: counts.get(i + 1) ?? 0,
      })),
    }
  }

  groups(input: {
    batchId: string
    after: number
    limit: number
    order: 'completion' | 'latest'
  }): Promise<Page<BatchGroupDto>> {
    return this.#groups.get(JSON.stringify(input), () => this.#groupPage(input))
  }

  async #groupPage(input: {
    batchId: string
    after: number
    limit: number
    order: 'completion' | 'latest'
  }): Promise<Page<BatchGroupDto>> {
    const batch = await this.#reader.row(input.batchId)
    const latest = input.order === 'latest'
    const rows = await groupsPage(this.#db, batch.id, input.after, input.limit + 1, latest)
    const page = rows.slice(0, input.limit)
    const members = await groupMembers(
      this.#db,
      batch.id,
      page.map((g) => g.no),
    )
    const byGroup = Map.groupBy(members, (m) => m.group_no)
    const isUnclear = await lacksCorrectness(this.#db, batch.id, batch.reward)
    return {
      items: page.map((group) => {
        const list = byGroup.get(group.no) ?? []
        const { mean, std, min, max, signal } = groupReport(list.map(memberOf), batch.reward)
        const last = list.reduce<(typeof list)[number] | null>(
          (a, m) => (m.ended_at && (!a?.ended_at || m.ended_at >= a.ended_at) ? m : a),
          null,
        )
        return {
          uid: group.uid,
          seq: group.seq,
          completedAt: group.completed_at.toISOString(),
          completedMs: group.completed_at.getTime() - batch.submitted_at.getTime(),
          size: group.received,
          failed: group.failed,
          mean,
          std,
          min,
          max,
          signal: isUnclear ? withoutCorrectness(signal) : signal,
          scores: list.map((m) => (m.status === 2 ? m.score : null)),
          slowestIndex: last?.idx ?? null,
          slowestQueueMs: last?.queue_ms ?? null,
          slowestScoreMs: last?.score_ms ?? null,
        }
      }),
      nextCursor: rows.length > input.limit ? String(page.at(-1)!.seq) : null,
    }
  }
}
