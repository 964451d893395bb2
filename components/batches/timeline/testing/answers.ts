import type { TimelineDto } from '../../../../server/contract/timeline.ts'
import { prepareTimeline, type TimelineSort } from '../timeline.prepare.ts'
import { mergeTimeline, type TimelineModel } from '../timeline-model.ts'

/** The samples of a group as [first dispatch, end], milliseconds. */
export type Times = [dispatchedMs: number | null, endedMs: number][]

/** A timeline response with `groups`. The first `complete` groups by end time are complete. */
export function answer(
  groups: Times[],
  over: Partial<TimelineDto> = {},
  complete = groups.length,
): TimelineDto {
  const samples: TimelineDto['samples'] = {
    ...{ index: [], group: [], dispatchedMs: [], endedMs: [], server: [] },
  }
  const endOf = groups.map((times) => Math.max(0, ...times.map(([, end]) => end)))
  const rank = (no: number) => (groups[no]?.length ? (endOf[no] ?? 0) : Number.MAX_VALUE)
  const order = groups.map((_, no) => no).sort((a, b) => rank(a) - rank(b))
  groups.forEach((times, no) => {
    times.forEach(([dispatched, ended], i) => {
      samples.index.push(no * 100 + i)
      samples.group.push(no)
      samples.dispatchedMs.push(dispatched)
      samples.endedMs.push(ended)
      samples.server.push(0)
    })
  })
  const seq = groups.map((_, no) => (order.indexOf(no) < complete ? order.indexOf(no) + 1 : 0))
  return {
    ...{ batchId: 'b1', full: true, cursor: 'c', atMs: Math.max(...endOf), ended: false },
    totals: {
      groups: groups.length,
      groupsCompleted: complete,
      samples: groups.flat().length,
    },
    ...{ part: 0, parts: 1, partGroups: 2_000, groupsInPart: groups.length, samplesLeftOut: 0 },
    servers: ['rm-1'],
    groups: {
      no: groups.map((_, no) => no),
      uid: groups.map((_, no) => `q${no}`),
      size: groups.map((times) => times.length),
      seq,
      completedMs: groups.map((_, no) => ((seq[no] ?? 0) > 0 ? (endOf[no] ?? null) : null)),
    },
    samples,
    failed: { index: [], reason: [] },
    retried: { index: [], attempts: [] },
    claimed: { group: [], samples: [], sinceMs: [] },
    calls: { index: [], startedMs: [], queueMs: [], backoffMs: [], serviceMs: [] },
    ...over,
  }
}

export const model = (...args: Parameters<typeof answer>): TimelineModel =>
  mergeTimeline(null, answer(...args))
export const prepare = (of: TimelineModel, sort: TimelineSort = 'completion', chunk = 0) =>
  prepareTimeline(of, { sort, chunk })
export const rowsOf = (...args: Parameters<typeof answer>) => prepare(model(...args)).rows
