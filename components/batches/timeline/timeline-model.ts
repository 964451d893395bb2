import type { SampleFailureReason } from '../../../server/contract/sample-reason.ts'
import type { TimelineDto } from '../../../server/contract/timeline.ts'

/** A scored or failed sample. Times are milliseconds since acceptance. */
export interface SampleMark {
  index: number
  /** Null if the sample was never dispatched. */
  dispatchedMs: number | null
  endedMs: number
  server: string | null
  /** Null if the sample was scored. */
  reason: SampleFailureReason | null
  attempts: number
}

/** An attempt to score a sample; times in milliseconds. */
export interface SampleCall {
  startedMs: number
  queueMs: number
  backoffMs: number
  serviceMs: number
}

/** The known state of a group. It is immutable: an update creates a new object. */
export interface GroupTrack {
  no: number
  uid: string
  size: number
  /** Completion number; 0 until the group is complete. */
  seq: number
  completedMs: number | null
  /** Scored and failed samples, in order of `endedMs`. */
  samples: readonly SampleMark[]
  /** Number of samples claimed by workers, and the time of the first claim. */
  claimed: number
  claimedSinceMs: number | null
  /** The attempts of the sample that was finished last, if it had several attempts or failed. */
  lastCalls: readonly SampleCall[]
}

export interface TimelineModel
  extends Pick<
    TimelineDto,
    | 'batchId'
    | 'cursor'
    | 'atMs'
    | 'ended'
    | 'totals'
    | 'part'
    | 'parts'
    | 'partGroups'
    | 'groupsInPart'
    | 'samplesLeftOut'
  > {
  groups: ReadonlyMap<number, GroupTrack>
}

export function mergeTimeline(known: TimelineModel | null, answer: TimelineDto): TimelineModel {
  const groups = new Map(answer.full || known === null ? [] : known.groups)
  const { no, uid, size, seq, completedMs } = answer.groups
  for (let i = 0; i < no.length; i++) {
    const of = no[i] as number
    const before = groups.get(of)
    groups.set(of, {
      ...{ no: of, uid: uid[i] as string, size: size[i] as number, seq: seq[i] as number },
      completedMs: completedMs[i] as number | null,
      samples: before?.samples ?? [],
      claimed: 0,
      claimedSinceMs: null,
      lastCalls: before?.lastCalls ?? [],
    })
  }
  addSamples(groups, answer)
  setClaimed(groups, answer)
  dropDisplaced(groups, answer.groupsInPart)
  const { batchId, cursor, atMs, ended, totals, part, parts, partGroups, groupsInPart } = answer
  const samplesLeftOut = answer.full ? answer.samplesLeftOut : (known?.samplesLeftOut ?? 0)
  return {
    ...{ batchId, cursor, atMs, ended, totals, part, parts, partGroups, groupsInPart },
    samplesLeftOut,
    groups,
  }
}

function addSamples(groups: Map<number, GroupTrack>, answer: TimelineDto): void {
  const { index, group, dispatchedMs, endedMs, server } = answer.samples
  const reasonOf = new Map(answer.failed.index.map((at, i) => [at, answer.failed.reason[i]]))
  const attemptsOf = new Map(answer.retried.index.map((at, i) => [at, answer.retried.attempts[i]]))
  const callsOf = new Map<number, SampleCall[]>()
  answer.calls.index.forEach((at, i) => {
    const call: SampleCall = {
      startedMs: answer.calls.startedMs[i] as number,
      queueMs: answer.calls.queueMs[i] as number,
      backoffMs: answer.calls.backoffMs[i] as number,
      serviceMs: answer.calls.serviceMs[i] as number,
    }
    const calls = callsOf.get(at)
    if (calls) calls.push(call)
    else callsOf.set(at, [call])
  })
  const came = new Map<number, SampleMark[]>()
  for (let i = 0; i < index.length; i++) {
    const at = index[i] as number
    const by = server[i]
    const mark: SampleMark = {
      index: at,
      dispatchedMs: dispatchedMs[i] as number | null,
      endedMs: endedMs[i] as number,
      server: by === null || by === undefined ? null : (answer.servers[by] ?? null),
      reason: reasonOf.get(at) ?? null,
      attempts: attemptsOf.get(at) ?? 1,
    }
    const of = group[i] as number
    const list = came.get(of)
    if (list) list.push(mark)
    else came.set(of, [mark])
  }
  for (const [of, marks] of came) {
    const track = groups.get(of)
    if (track === undefined) continue
    const fresh = new Set(marks.map((mark) => mark.index))
    const samples = track.samples
      .filter((mark) => !fresh.has(mark.index))
      .concat(marks)
      .sort((a, b) => a.endedMs - b.endedMs || a.index - b.index)
    const lastCalls = callsOf.get(samples.at(-1)?.index ?? -1)
    groups.set(of, { ...track, samples, lastCalls: lastCalls ?? track.lastCalls })
  }
}

function setClaimed(groups: Map<number, GroupTrack>, answer: TimelineDto): void {
  const now = new Map(answer.claimed.group.map((of, i) => [of, i]))
  for (const [of, track] of groups) {
    const i = now.get(of)
    const claimed = i === undefined ? 0 : (answer.claimed.samples[i] as number)
    const claimedSinceMs = i === undefined ? null : (answer.claimed.sinceMs[i] as number)
    if (claimed !== track.claimed || claimedSinceMs !== track.claimedSinceMs)
      groups.set(of, { ...track, claimed, claimedSinceMs })
  }
}

/** Drops the last pending groups if completed groups of later pages have moved to this page. */
function dropDisplaced(groups: Map<number, GroupTrack>, most: number): void {
  if (groups.size <= most) return
  const waiting = [...groups.values()].filter((track) => track.seq === 0)
  waiting.sort((a, b) => b.no - a.no)
  for (const track of waiting.slice(0, groups.size - most)) groups.delete(track.no)
}

/**
 * True if the model missed a result, so that a full read is needed. The time ranges of successive responses overlap, so
 * the model misses a result only if its commit took longer than the overlap.
 */
export function hasHoles(model: TimelineModel): boolean {
  if (model.groups.size !== model.groupsInPart) return true
  if (model.samplesLeftOut > 0) return false
  for (const track of model.groups.values())
    if (track.seq > 0 && track.samples.length < track.size) return true
  return false
}
