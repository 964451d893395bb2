import type { GroupTrack, SampleCall, SampleMark, TimelineModel } from './timeline-model.ts'

/**
 * The causes of a delay. `queue`: the sample was not dispatched. `router`: it waited for a free server. `service`: it
 * waited for the response. `retry`: an attempt failed and was retried after a backoff. The wait for a free server is
 * recorded separately only for samples with several attempts or a failure; otherwise it is part of `queue`.
 */
export type WaitCause = 'queue' | 'router' | 'service' | 'retry'
export const WAIT_CAUSES: readonly WaitCause[] = ['queue', 'router', 'service', 'retry']

/**
 * A group, prepared for drawing. Times are milliseconds since acceptance; `medianMs`, `stragglerDelayMs` and `tailMs`
 * are durations.
 */
export interface TimelineRow {
  track: GroupTrack
  /**
   * The first dispatch of a finished sample or the claim of a pending sample, whichever is earlier; null if there is
   * neither.
   */
  startMs: number | null
  /** Time of completion; null while the group runs. */
  endMs: number | null
  /** From first dispatch to the end of the median sample; null before a sample is finished. */
  medianMs: number | null
  last: SampleMark | null
  /**
   * The straggler delay: from the end of the second-to-last sample to the end of the last; 0 for a single-sample group
   * and while the group runs.
   */
  stragglerDelayMs: number
  /**
   * From the end of the median sample to the end of the last one; null for a single-sample group and while the group
   * runs.
   */
  tailMs: number | null
  waits: Readonly<Record<WaitCause, number>>
  cause: WaitCause | null
  failed: number
}

/**
 * A group's tail is the time from the end of its median sample to the end of its last one. A group has a straggler if
 * its tail exceeds the batch's median tail by more than this many median absolute deviations. Measured on 128 groups
 * whose samples take 0.1 to 4 s, except one sample in 200, which takes 30 s: a factor of 4 selects exactly the 8 groups
 * with such a sample. A factor of 3 selects 11 groups, and in a batch without such samples it selects 1 to 6 groups.
 */
export const STRAGGLER_DEVIATIONS = 4
/**
 * A straggler's tail is also at least this share of the batch's time so far. A shorter tail does not delay the
 * trainer noticeably.
 */
export const MIN_STRAGGLER_SHARE = 0.05
/** Minimum straggler delay, ms. Shorter delays are not significant, because workers write results only every 40 ms. */
export const MIN_STRAGGLER_DELAY_MS = 50

const prepared = new WeakMap<GroupTrack, TimelineRow>()

/** Returns the row of a group, the same object while the group does not change. */
export function prepareRow(track: GroupTrack): TimelineRow {
  const known = prepared.get(track)
  if (known) return known
  const row = newRow(track)
  prepared.set(track, row)
  return row
}

function newRow(track: GroupTrack): TimelineRow {
  const { samples } = track
  let startMs = track.claimedSinceMs
  let failed = 0
  for (const mark of samples) {
    if (mark.reason !== null) failed++
    if (mark.dispatchedMs === null) continue
    // The clock of a worker may be ahead, so the start is clamped to the end.
    const at = Math.max(0, Math.min(mark.dispatchedMs, mark.endedMs))
    if (startMs === null || at < startMs) startMs = at
  }
  const n = samples.length
  const complete = track.seq > 0
  const last = complete ? (samples[n - 1] ?? null) : null
  const before = samples[n - 2]
  const stragglerDelayMs = last && before ? last.endedMs - before.endedMs : 0
  const waits =
    last && before && stragglerDelayMs > 0
      ? waitsOf(last, track.lastCalls, before.endedMs)
      : { queue: 0, router: 0, service: 0, retry: 0 }
  const middle = samples[(n - 1) >> 1]
  const other = samples[n >> 1]
  const medianEndMs = middle && other ? (middle.endedMs + other.endedMs) / 2 : null
  return {
    track,
    startMs,
    endMs: complete ? Math.max(track.completedMs ?? 0, last?.endedMs ?? 0) : null,
    medianMs: medianEndMs !== null && startMs !== null ? Math.max(0, medianEndMs - startMs) : null,
    tailMs: last && n > 1 && medianEndMs !== null ? last.endedMs - medianEndMs : null,
    ...{ last, stragglerDelayMs, waits, failed },
    cause:
      stragglerDelayMs > 0
        ? WAIT_CAUSES.reduce((most, each) => (waits[each] > waits[most] ? each : most))
        : null,
  }
}

/**
 * Splits the time of a sample from `fromMs` to its end by cause, ms. Its attempts are laid out one after another from
 * the dispatch. Their durations are used instead of their times, because a worker's clock may be off by milliseconds.
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
    // The time after the last attempt was spent on writing its result, and counts as service.
    add(isLast ? 'service' : 'retry', at, isLast ? sample.endedMs : at + call.serviceMs)
    at += call.serviceMs
  })
  if (calls.length === 0) add('service', dispatched, sample.endedMs)
  return waits
}

/** Links contain these values. */
export type TimelineSort = 'completion' | 'dispatch' | 'stragglerDelay'

/**
 * A mini-batch: consecutive groups by completion number, ready when the last of them is complete. Times in
 * milliseconds.
 */
export interface MiniBatch {
  no: number
  /** Completion numbers of the first and the last group. */
  fromSeq: number
  toSeq: number
  readyMs: number
  /** Time since the previous mini-batch, or since acceptance. Null if the previous one is on another page of groups. */
  afterMs: number | null
}

export interface TimelineData {
  rows: readonly TimelineRow[]
  /** Number of complete groups among the rows. */
  complete: number
  samples: number
  failed: number
  stragglers: ReadonlySet<number>
  stragglerDelayMs: number
  delayByCause: Readonly<Record<WaitCause, number>>
  miniBatches: readonly MiniBatch[]
  spanMs: number
}

/**
 * Prepares the rows, stragglers and mini-batches of a timeline. `chunk` is the number of groups per mini-batch; 0 for
 * no mini-batches.
 */
export function prepareTimeline(
  model: TimelineModel,
  options: { sort: TimelineSort; chunk: number },
): TimelineData {
  const rows = [...model.groups.values()].map(prepareRow)
  rows.sort(ORDERS[options.sort])
  const delayByCause = { queue: 0, router: 0, service: 0, retry: 0 }
  let complete = 0
  let samples = 0
  let failed = 0
  let stragglerDelayMs = 0
  let spanMs = model.atMs
  for (const row of rows) {
    if (row.endMs !== null) complete++
    samples += row.track.samples.length
    failed += row.failed
    spanMs = Math.max(spanMs, row.endMs ?? row.track.samples.at(-1)?.endedMs ?? 0)
  }
  const stragglers = stragglersAmong(rows, spanMs)
  for (const row of rows) {
    if (!stragglers.has(row.track.no)) continue
    stragglerDelayMs += row.stragglerDelayMs
    for (const cause of WAIT_CAUSES) delayByCause[cause] += row.waits[cause]
  }
  return {
    ...{ rows, complete, samples, failed, stragglerDelayMs, delayByCause, spanMs, stragglers },
    miniBatches: miniBatches(rows, options.chunk, model),
  }
}

// Infinity minus Infinity is NaN, and `||` then falls through to the tie-breaker.
const byCompletion = (a: TimelineRow, b: TimelineRow) =>
  (a.track.seq || Number.POSITIVE_INFINITY) - (b.track.seq || Number.POSITIVE_INFINITY) ||
  (a.startMs ?? Number.POSITIVE_INFINITY) - (b.startMs ?? Number.POSITIVE_INFINITY) ||
  a.track.no - b.track.no

const ORDERS: Record<TimelineSort, (a: TimelineRow, b: TimelineRow) => number> = {
  completion: byCompletion,
  dispatch: (a, b) =>
    (a.startMs ?? Number.POSITIVE_INFINITY) - (b.startMs ?? Number.POSITIVE_INFINITY) ||
    a.track.no - b.track.no,
  stragglerDelay: (a, b) => b.stragglerDelayMs - a.stragglerDelayMs || byCompletion(a, b),
}

/** Returns the numbers of the groups with a straggler. A group whose last two samples end together has none. */
function stragglersAmong(rows: readonly TimelineRow[], spanMs: number): Set<number> {
  const tails = rows.flatMap(({ tailMs }) => tailMs ?? [])
  const typical = median(tails)
  const deviation = median(tails.map((ms) => Math.abs(ms - typical)))
  const limit = typical + STRAGGLER_DEVIATIONS * deviation
  const least = Math.max(MIN_STRAGGLER_DELAY_MS, MIN_STRAGGLER_SHARE * spanMs)
  const late = rows.filter(
    ({ tailMs, stragglerDelayMs }) =>
      tailMs !== null &&
      tailMs > limit &&
      tailMs >= least &&
      stragglerDelayMs >= MIN_STRAGGLER_DELAY_MS,
  )
  return new Set(late.map((row) => row.track.no))
}

function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b)
  const n = sorted.length
  return n === 0 ? 0 : ((sorted[(n - 1) >> 1] as number) + (sorted[n >> 1] as number)) / 2
}

export function stragglerCauses(data: TimelineData): Set<WaitCause> {
  const causes = new Set<WaitCause>()
  for (const { track, cause } of data.rows)
    if (cause !== null && data.stragglers.has(track.no)) causes.add(cause)
  return causes
}

/** The mini-batches of `chunk` groups. The last one may have fewer groups once the batch has ended. */
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
    if (end === undefined || (toSeq < no * chunk && !model.ended)) return found
    // Completion times are taken slightly before the numbers are assigned, so a later group may have an earlier time.
    const readyMs = Math.max(before ?? 0, end)
    const afterMs = before === null ? null : readyMs - before
    found.push({ no, fromSeq: (no - 1) * chunk + 1, toSeq, readyMs, afterMs })
    before = readyMs
    if (toSeq === groups) return found
  }
}

/** The rows with activity between two times. Other rows would be empty when zoomed in. Totals still cover all rows. */
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

/** A quarter of the groups, a common mini-batch size; 0 for batches too small to split. */
export function defaultChunk(groups: number): number {
  return groups < 8 ? 0 : Math.ceil(groups / 4)
}
