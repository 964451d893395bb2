import { IndexedHeap } from '../indexed-heap.ts'

/** A request to a server for one sample. Times are in ms since the batch was accepted. */
export interface ServedCall {
  server: number
  startMs: number
  endMs: number
  isScore: boolean
}

export interface Bottleneck {
  server: number
  samples: number
  /** The server's median time per call; `ratio` is that time ÷ the median of the other servers. */
  medianMs: number
  ratio: number
  /** Time at the end of the batch during which only this server scored. */
  tailMs: number
  /** The estimated time of the batch without this server. */
  withoutMs: number
}

/** Maximum number of calls per sample in a replay, which might otherwise never end. */
const MAX_REPLAYED_CALLS = 20
/** Number of calls replayed between two yields, about 0.1 ms of work. */
const CALLS_PER_YIELD = 256
/** Minimum number of scores of a server; fewer do not show its speed. */
const MIN_SCORES = 2
/** A server can be the bottleneck if its median call time is at least this multiple of the other servers' median. */
const MIN_RATIO = 1.5
/** A bottleneck costs at least this share of the batch's time. */
const MIN_COST = 0.1
/** A bottleneck costs at least this many times as much time as any other server. */
const MIN_LEAD = 2

/**
 * Finds the server that held up a batch: without this server, the batch would have ended sooner. Returns null if no
 * server stands out. Yields about every 0.1 ms, so that the caller can free the event loop.
 *
 * The recorded calls are replayed: a free slot of a server takes the next sample and is busy for the duration of the
 * next recorded call of that server. The estimate is scaled by the ratio of recorded to replayed time with all servers.
 * @param totalMs the time of the batch
 */
export function* findBottleneck(
  calls: readonly ServedCall[],
  totalMs: number,
): Generator<void, Bottleneck | null> {
  const able: ReplayedServer[] = []
  let scores = 0
  let firstMs = Number.POSITIVE_INFINITY
  for (const [server, own] of Map.groupBy(calls, ({ server }) => server)) {
    yield
    const durations: number[] = []
    for (const { startMs, endMs, isScore } of own) {
      firstMs = Math.min(firstMs, startMs)
      if (isScore) durations.push(endMs - startMs)
    }
    scores += durations.length
    if (durations.length < MIN_SCORES) continue
    able.push({
      ...{ server, samples: durations.length, medianMs: medianOf(durations) },
      calls: own.toSorted((a, b) => a.startMs - b.startMs),
      slots: mostConcurrent(own),
    })
  }
  if (able.length < 2) return null
  const replayedMs = firstMs + (yield* replay(able, scores))
  const found: { one: ReplayedServer; ratio: number; withoutMs: number; costMs: number }[] = []
  for (const one of able) {
    const others = able.filter((other) => other !== one)
    const usualMs = medianOf(others.map(({ medianMs }) => medianMs))
    const withoutMs = ((firstMs + (yield* replay(others, scores))) * totalMs) / replayedMs
    found.push({ one, ratio: one.medianMs / usualMs, withoutMs, costMs: totalMs - withoutMs })
  }
  const [first, second] = found.toSorted((a, b) => b.costMs - a.costMs)
  if (first === undefined || first.ratio < MIN_RATIO) return null
  if (first.costMs < MIN_COST * totalMs) return null
  if (second !== undefined && first.costMs < MIN_LEAD * second.costMs) return null
  const { server, samples, medianMs } = first.one
  let ownEndMs = Number.NEGATIVE_INFINITY
  let othersEndMs = Number.NEGATIVE_INFINITY
  for (const call of calls) {
    if (!call.isScore) continue
    if (call.server === server) ownEndMs = Math.max(ownEndMs, call.endMs)
    else othersEndMs = Math.max(othersEndMs, call.endMs)
  }
  return {
    ...{ server, samples, medianMs, ratio: first.ratio, withoutMs: first.withoutMs },
    tailMs: Math.max(0, ownEndMs - othersEndMs),
  }
}

interface ReplayedServer {
  server: number
  samples: number
  medianMs: number
  /** The server's calls by start time. */
  calls: readonly ServedCall[]
  slots: number
}

interface Slot {
  /** The index of the slot, which decides between slots that are free at the same time. */
  at: number
  server: number
  freeMs: number
}

/** Returns the time until the last of `samples` samples has its score, ms. */
function* replay(servers: readonly ReplayedServer[], samples: number): Generator<void, number> {
  const slots = new IndexedHeap<Slot>(
    (a, b) => a.freeMs < b.freeMs || (a.freeMs === b.freeMs && a.at < b.at),
    () => {},
  )
  for (const [server, { slots: count }] of servers.entries()) {
    for (let i = 0; i < count; i++) slots.push({ at: slots.size, server, freeMs: 0 })
  }
  const taken = servers.map(() => 0)
  const waiting = new Array<number>(samples).fill(0)
  let endMs = 0
  for (let next = 0; next < waiting.length; next++) {
    if (next % CALLS_PER_YIELD === 0) yield
    const free = slots.first
    if (free === null || waiting.length > MAX_REPLAYED_CALLS * samples)
      return Number.POSITIVE_INFINITY
    const { calls } = servers[free.server] as ReplayedServer
    const at = taken[free.server] as number
    taken[free.server] = at + 1
    const call = calls[at % calls.length] as ServedCall
    free.freeMs = Math.max(free.freeMs, waiting[next] as number) + call.endMs - call.startMs
    slots.moved(0)
    if (call.isScore) endMs = Math.max(endMs, free.freeMs)
    else waiting.push(free.freeMs)
  }
  return endMs
}

function mostConcurrent(calls: readonly ServedCall[]): number {
  const events = calls.flatMap(({ startMs, endMs }) => [
    { at: startMs, change: 1 },
    { at: endMs, change: -1 },
  ])
  // At equal times, ends sort before starts, so that a slot that is freed and taken again counts once.
  events.sort((a, b) => a.at - b.at || a.change - b.change)
  let now = 0
  let most = 0
  for (const { change } of events) {
    now += change
    most = Math.max(most, now)
  }
  return most
}

function medianOf(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[(values.length - 1) >> 1] ?? 0
}
