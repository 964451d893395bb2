import type { GroupTrack, SampleCall, SampleMark, TimelineModel } from './timeline-model.ts'

/**
 * What a sample waits on. `queue`: not dispatched; of a sample scored by its first call this includes the wait for a
 * free server, which is recorded apart only where there were more calls. `router`: for a free server. `service`: for
 * the answer. `retry`: a call that was made again, and the pause before.
 */
export type WaitCause = 'queue' | 'router' | 'service' | 'retry'
export const WAIT_CAUSES: readonly WaitCause[] = ['queue', 'router', 'service', 'retry']

/** A group, ready to draw. Milliseconds since the batch was accepted, or between two moments. */
export interface TimelineRow {
  track: GroupTrack
  /** First dispatch; of a group of which nothing ended, when a worker took its first sample. Null: neither. */
  startMs: number | null
  /** Completion; null while it runs. */
  endMs: number | null
  /** From the first dispatch to the end of the median sample; null before one ended. */
  medianMs: number | null
  /** The sample that ended last, of a complete group. */
  last: SampleMark | null
  /** What the others waited for the last one; 0 for a group of one, and while it runs. */
  lostMs: number
  /** That time by what the last sample did in it. */
  waits: Readonly<Record<WaitCause, number>>
  /** The longest of them; null where nothing was lost. */
  cause: WaitCause | null
  failed: number
}

/** A group is late when its last sample took more than this many times its median sample. */
export const STRAGGLER_FACTOR = 2
/** Results are written every 50 ms: less lost than that says nothing. */
export const LEAST_LOST_MS = 50
/** Beside the late ones those that lost most are marked: so many, and at most a tenth of all. */
const MOST_LOST = 10

const prepared = new WeakMap<GroupTrack, TimelineRow>()

/** A group's row; the same group gives the same object. */
export function prepareRow(track: GroupTrack): TimelineRow {
  const known = prepared.get(track)
  if (known) return known
  const row = newRow(track)
  prepared.set(track, row)
  return row
}

function newRow(track: GroupTrack): TimelineRow {
  const { samples } = track
  let startMs = track.heldSinceMs
  let failed = 0
  for (const mark of samples) {
    if (mark.reason !== null) failed++
    if (mark.dispatchedMs === null) continue
    // Clocks differ by a little: nothing begins after its end.
    const at = Math.max(0, Math.min(mark.dispatchedMs, mark.endedMs))
    if (startMs === null || at < startMs) startMs = at
  }
  const n = samples.length
  const complete = track.seq > 0
  const last = complete ? (samples[n - 1] ?? null) : null
  const before = samples[n - 2]
  const lostMs = last && before ? last.endedMs - before.endedMs : 0
  const waits =
    last && before && lostMs > 0
      ? waitsOf(last, track.lastCalls, before.endedMs)
      : { queue: 0, router: 0, service: 0, retry: 0 }
  const middle = samples[(n - 1) >> 1]
  const other = samples[n >> 1]
  return {
    track,
    startMs,
    endMs: complete ? Math.max(track.completedMs ?? 0, last?.endedMs ?? 0) : null,
    medianMs:
      middle && other && startMs !== null
        ? Math.max(0, (middle.endedMs + other.endedMs) / 2 - startMs)
        : null,
    ...{ last, lostMs, waits, failed },
    cause:
      lostMs > 0
        ? WAIT_CAUSES.reduce((most, each) => (waits[each] > waits[most] ? each : most))
        : null,
  }
}

/**
 * What a sample did from `fromMs` to its end, in milliseconds of each kind. A worker's times are put in the order of
 * its calls, because its clock may be off by some milliseconds.
 */
export function waitsOf(
  sample: SampleMark,
  calls: readonly SampleCall[],
  fromMs: number,
): Record<WaitCause, number> {
  const waits = { queue: 0, router: 0, service: 0, retry: 0 }
  const add = (cause: WaitCause, from: number, to: number) => {
    const ms = Math.min(to, sample.endedMs) - Math.max(from, fromMs)
    if (ms > 0) waits[cause] += ms
  }
  const dispatched = Math.min(sample.dispatchedMs ?? sample.endedMs, sample.endedMs)
  const slot = calls.length > 0 ? Math.min(dispatched, calls[0]?.queueMs ?? 0) : 0
  add('queue', 0, dispatched - slot)
  add('router', dispatched - slot, dispatched)
  let at = dispatched
  calls.forEach((call, i) => {
    if (i > 0) {
      add('retry', at, at + call.backoffMs)
      add('router', at + call.backoffMs, at + call.backoffMs + call.queueMs)
      at += call.backoffMs + call.queueMs
    }
    const isLast = i === calls.length - 1
    // What is left after the last call is its result being written.
    add(isLast ? 'service' : 'retry', at, isLast ? sample.endedMs : at + call.serviceMs)
    at += call.serviceMs
  })
  if (calls.length === 0) add('service', dispatched, sample.endedMs)
  return waits
}

/** The order of the rows. */
export type TimelineSort = 'completion' | 'dispatch' | 'lost'

/** When so many more groups were complete that a trainer that takes mini-batches could go on. */
export interface MiniBatch {
  /** From 1. */
  no: number
  /** Its groups by completion number. */
  fromSeq: number
  toSeq: number
  readyMs: number
  /** After the one before, or after the batch was accepted; null where the one before is of another part. */
  afterMs: number | null
}

/** A part of a batch's timeline, ready to draw. */
export interface TimelineData {
  rows: readonly TimelineRow[]
  /** Rows of complete groups among them. */
  complete: number
  samples: number
  failed: number
  /** Groups by number whose last sample made them late. */
  stragglers: ReadonlySet<number>
  lostMs: number
  lostBy: Readonly<Record<WaitCause, number>>
  miniBatches: readonly MiniBatch[]
  /** The latest moment told of. */
  spanMs: number
}

/** Prepares the groups of a part: order, stragglers, time lost, mini-batches of `chunk` groups (0: none). */
export function prepareTimeline(
  model: TimelineModel,
  options: { sort: TimelineSort; chunk: number },
): TimelineData {
  const rows = [...model.groups.values()].map(prepareRow)
  rows.sort(ORDERS[options.sort])
  const lostBy = { queue: 0, router: 0, service: 0, retry: 0 }
  let complete = 0
  let samples = 0
  let failed = 0
  let lostMs = 0
  let spanMs = model.atMs
  for (const row of rows) {
    if (row.endMs !== null) complete++
    samples += row.track.samples.length
    failed += row.failed
    lostMs += row.lostMs
    for (const cause of WAIT_CAUSES) lostBy[cause] += row.waits[cause]
    spanMs = Math.max(spanMs, row.endMs ?? row.track.samples.at(-1)?.endedMs ?? 0)
  }
  return {
    ...{ rows, complete, samples, failed, lostMs, lostBy, spanMs },
    stragglers: stragglersAmong(rows),
    miniBatches: miniBatches(rows, options.chunk, model),
  }
}

// Infinity less infinity is no number, and `||` goes on to what decides between two unknowns.
const byCompletion = (a: TimelineRow, b: TimelineRow) =>
  (a.track.seq || Number.POSITIVE_INFINITY) - (b.track.seq || Number.POSITIVE_INFINITY) ||
  (a.startMs ?? Number.POSITIVE_INFINITY) - (b.startMs ?? Number.POSITIVE_INFINITY) ||
  a.track.no - b.track.no

const ORDERS: Record<TimelineSort, (a: TimelineRow, b: TimelineRow) => number> = {
  completion: byCompletion,
  dispatch: (a, b) =>
    (a.startMs ?? Number.POSITIVE_INFINITY) - (b.startMs ?? Number.POSITIVE_INFINITY) ||
    a.track.no - b.track.no,
  lost: (a, b) => b.lostMs - a.lostMs || byCompletion(a, b),
}

function stragglersAmong(rows: readonly TimelineRow[]): Set<number> {
  const lost = rows.filter((row) => row.lostMs >= LEAST_LOST_MS)
  const late = lost.filter((row) => {
    const tookMs = (row.last?.endedMs ?? 0) - (row.startMs ?? 0)
    return row.medianMs !== null && tookMs > STRAGGLER_FACTOR * row.medianMs
  })
  const most = lost
    .toSorted((a, b) => b.lostMs - a.lostMs)
    .slice(0, Math.min(MOST_LOST, Math.ceil(rows.length / 10)))
  return new Set([...late, ...most].map((row) => row.track.no))
}

/** What the stragglers in sight waited on. */
export function stragglerCauses(data: TimelineData): Set<WaitCause> {
  const causes = new Set<WaitCause>()
  for (const { track, cause } of data.rows)
    if (cause !== null && data.stragglers.has(track.no)) causes.add(cause)
  return causes
}

/** When each mini-batch of `chunk` groups was there; the last one may have fewer groups, once all are complete. */
function miniBatches(
  rows: readonly TimelineRow[],
  chunk: number,
  model: Pick<TimelineModel, 'totals' | 'part' | 'partGroups' | 'ended'>,
): MiniBatch[] {
  if (chunk <= 0) return []
  const done = rows.filter((row) => row.endMs !== null)
  const endOf = new Map(done.map((row) => [row.track.seq, row.endMs as number]))
  const first = model.part * model.partGroups
  const { groups } = model.totals
  const found: MiniBatch[] = []
  let before = first === 0 ? 0 : null
  for (let no = Math.floor(first / chunk) + 1; ; no++) {
    const toSeq = Math.min(no * chunk, groups)
    const end = endOf.get(toSeq)
    // More groups may come as long as the batch runs.
    if (end === undefined || (toSeq < no * chunk && !model.ended)) return found
    // Completion numbers are given under a lock, their times a little before it.
    const readyMs = Math.max(before ?? 0, end)
    const afterMs = before === null ? null : readyMs - before
    found.push({ no, fromSeq: (no - 1) * chunk + 1, toSeq, readyMs, afterMs })
    before = readyMs
    if (toSeq === groups) return found
  }
}

/**
 * The rows that something happens in between two moments: zoomed in, the others would be empty. The sums stay those of
 * all.
 */
export function rowsBetween(
  data: TimelineData,
  between: { fromMs: number; toMs: number } | null,
  nowMs: number | null,
): TimelineData {
  if (between === null) return data
  const rows = data.rows.filter((row) => {
    const endMs = row.endMs ?? nowMs ?? 0
    return (row.startMs ?? endMs) <= between.toMs && endMs >= between.fromMs
  })
  return { ...data, rows }
}

/** A quarter of the groups, as trainers usually take them; 0 for batches too small to be parted. */
export function usualChunk(groups: number): number {
  return groups < 8 ? 0 : Math.ceil(groups / 4)
}
