import type { BatchReader } from '../batches/batch-reader.ts'
import {
  type BottleneckDto,
  MAX_TIMELINE_GROUPS,
  MAX_TIMELINE_SAMPLES,
  type TimelineDto,
  type TimelineInput,
} from '../contract/timeline.ts'
import { Memo } from '../memo.ts'
import { findBottleneck } from '../planner/bottleneck.ts'
import type { Database } from '../store/database.ts'
import type { BatchRow } from '../store/sql/batches.ts'
import { servedCalls, type TimelineRow, timelinePart } from '../store/sql/timeline.ts'
import { inPortions } from './in-portions.ts'

/** Time for which the response for a running batch is cached. Pages read changes three times a second. */
const RUNNING_TTL_MS = 250
const ENDED_TTL_MS = 10_000
/**
 * Overlap of two consecutive reads. A flush sets its samples' time before it commits, so a sample may appear late. If a
 * commit takes longer than the overlap, the page notices the missing samples and reads the part in full.
 */
const OVERLAP_MS = 3_000

export class TimelineView {
  readonly #db: Database
  readonly #reader: BatchReader
  readonly #running = new Memo<TimelineDto>(RUNNING_TTL_MS)
  readonly #ended = new Memo<TimelineDto>(ENDED_TTL_MS)

  readonly #bottlenecks = new Memo<BottleneckDto>(ENDED_TTL_MS)

  constructor(db: Database, reader: BatchReader) {
    this.#db = db
    this.#reader = reader
  }

  /** The server that held up an ended batch. @throws RewardOpsError `batch_not_found` */
  async bottleneck(batchId: string): Promise<BottleneckDto | null> {
    const batch = await this.#reader.row(batchId)
    const { id, completed_at, submitted_at, samples } = batch
    if (completed_at === null || samples > MAX_REPLAYED_SAMPLES) return null
    return this.#bottlenecks.get(batchId, async () => {
      const totalMs = completed_at.getTime() - submitted_at.getTime()
      const columns = await servedCalls(this.#db, id)
      // With several models there is no result, because samples of one model cannot go to the servers of another.
      const models = new Set(columns.servers.map(({ model }) => model))
      if (models.size !== 1) return { totalMs, servers: 0, server: null }
      const calls = columns.server.map((server, at) => ({
        server,
        startMs: columns.start_ms[at] as number,
        endMs: columns.end_ms[at] as number,
        isScore: columns.is_score[at] as boolean,
      }))
      const servers = new Set(columns.server.filter((_, at) => columns.is_score[at])).size
      const found = await inPortions(findBottleneck(calls, totalMs))
      const name = columns.servers.find((one) => one.id === found?.server)?.name
      if (found === null || name === undefined) return { totalMs, servers, server: null }
      const { server: _, ...figures } = found
      return { totalMs, servers, server: { name, ...figures } }
    })
  }

  /** A part of a batch's timeline, or its changes. @throws RewardOpsError `batch_not_found` */
  async part(input: TimelineInput): Promise<TimelineDto> {
    const batch = await this.#reader.row(input.batchId)
    const partGroups = groupsInAPart(batch)
    const changedAfter = changedAfterOf(input.after, partGroups)
    const memo = batch.completed_at === null ? this.#running : this.#ended
    return memo.get(`${batch.id} ${input.part} ${partGroups} ${changedAfter}`, async () => {
      const row = await timelinePart(this.#db, {
        batchId: batch.id,
        from: input.part * partGroups,
        limit: partGroups,
        maxSamples: MAX_TIMELINE_SAMPLES,
        changedAfter,
      })
      return toTimeline(input.batchId, input.part, partGroups, changedAfter === null, row)
    })
  }
}

/** Maximum number of samples for which the bottleneck is computed. The computation takes about 0.15 s, in portions. */
const MAX_REPLAYED_SAMPLES = 65_536

function groupsInAPart(batch: Pick<BatchRow, 'samples' | 'groups' | 'group_size'>): number {
  const size = batch.group_size ?? Math.ceil(batch.samples / Math.max(1, batch.groups))
  return Math.max(
    1,
    Math.min(MAX_TIMELINE_GROUPS, Math.floor(MAX_TIMELINE_SAMPLES / Math.max(1, size))),
  )
}

/**
 * Returns the time of a cursor, epoch ms, or null if the part must be read in full. The time is rounded down to 250 ms,
 * so that clients polling at about the same time get the same cached response.
 */
function changedAfterOf(cursor: string | null, partGroups: number): number | null {
  const match = /^(\d{1,6})-(\d{1,15})$/.exec(cursor ?? '')
  if (match === null || Number(match[1]) !== partGroups) return null
  return Math.floor(Number(match[2]) / RUNNING_TTL_MS) * RUNNING_TTL_MS
}

function toTimeline(
  batchId: string,
  part: number,
  partGroups: number,
  full: boolean,
  row: TimelineRow,
): TimelineDto {
  const servers = row.servers ?? []
  const indexOf = new Map(servers.map(({ id }, i) => [id, i]))
  const { group_columns: groups, sample_columns: samples, failed, retried, claimed, calls } = row
  // Completed groups come first, so a part after them gets other groups whenever a group completes. Such a part is sent
  // in full each time.
  const moves = part * partGroups > row.done
  return {
    batchId,
    full,
    cursor:
      row.ended || moves
        ? null
        : `${partGroups}-${Math.max(0, Math.floor(row.now_ms - OVERLAP_MS))}`,
    atMs: row.at_ms,
    ended: row.ended,
    totals: { groups: row.groups, groupsCompleted: row.done, samples: row.samples },
    part,
    parts: Math.max(1, Math.ceil(row.groups / partGroups)),
    partGroups,
    groupsInPart: row.in_part,
    samplesLeftOut: Math.max(0, row.samples_in_part - MAX_TIMELINE_SAMPLES),
    servers: servers.map(({ name }) => name),
    groups: {
      no: groups.no ?? [],
      uid: groups.uid ?? [],
      size: groups.size ?? [],
      seq: groups.seq ?? [],
      completedMs: groups.completedMs ?? [],
    },
    samples: {
      index: samples.index ?? [],
      group: samples.group ?? [],
      dispatchedMs: samples.dispatchedMs ?? [],
      endedMs: samples.endedMs ?? [],
      server: (samples.server ?? []).map((id) => (id === null ? null : (indexOf.get(id) ?? null))),
    },
    failed: { index: failed.index ?? [], reason: failed.reason ?? [] },
    retried: { index: retried.index ?? [], attempts: retried.attempts ?? [] },
    claimed: {
      group: claimed.group ?? [],
      samples: claimed.samples ?? [],
      sinceMs: claimed.sinceMs ?? [],
    },
    calls: {
      index: calls.index ?? [],
      startedMs: calls.startedMs ?? [],
      queueMs: calls.queueMs ?? [],
      backoffMs: calls.backoffMs ?? [],
      serviceMs: calls.serviceMs ?? [],
    },
  }
}
