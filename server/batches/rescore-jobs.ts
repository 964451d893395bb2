import type { ChunkJob } from '../store/job-queue.ts'
import { chunk, wholeGroupJobs } from './accept/jobs.ts'

/**
 * Number of samples per window. A window may have a few more, so that no group is split. Creating the jobs of a window
 * blocks the event loop for 10 to 15 ms; creating the jobs of a million samples at once would block it for half a
 * second.
 */
const WINDOW_SAMPLES = 32_768

export interface JobsOf {
  batchId: number
  /** Time of acceptance on the database's clock. */
  nowMs: number
  groupOf: Int32Array
  /** Estimated work per sample, in characters; null keeps the order of the groups. */
  workOf: Float64Array | null
  wholeGroups: boolean
}

/**
 * Yields the jobs of a whole batch, one window of groups at a time. A batch that fits into one window gets the same
 * jobs as a submit of the same samples.
 */
export function* rescoreJobs(of: JobsOf): Generator<ChunkJob[]> {
  const { batchId, nowMs, groupOf, workOf } = of
  const order = byGroup(groupOf)
  for (let from = 0; from < order.length; ) {
    let to = Math.min(order.length, from + WINDOW_SAMPLES)
    while (to < order.length && groupAt(of, order, to) === groupAt(of, order, to - 1)) to++
    const window = Array.from(order.subarray(from, to))
    yield of.wholeGroups
      ? wholeGroupJobs(Map.groupBy(window, (i) => groupOf[i] as number).values(), batchId, nowMs)
      : chunk(
          window,
          (i) => groupOf[i] as number,
          batchId,
          nowMs,
          workOf === null ? undefined : (i) => workOf[i] as number,
        )
    from = to
  }
}

function groupAt({ groupOf }: JobsOf, order: Int32Array, at: number): number {
  return groupOf[order[at] as number] as number
}

/** Indexes ordered by group, then by index within the group. */
function byGroup(groupOf: Int32Array): Int32Array {
  let groups = 0
  for (const no of groupOf) groups = Math.max(groups, no + 1)
  const next = new Int32Array(groups + 1)
  for (const no of groupOf) next[no + 1]!++
  for (let no = 1; no <= groups; no++) next[no]! += next[no - 1] as number
  const order = new Int32Array(groupOf.length)
  groupOf.forEach((no, i) => {
    order[next[no]!++] = i
  })
  return order
}
