/** A call of a server for a sample; times in ms since the batch was accepted. */
export interface ServedCall {
  server: number
  startMs: number
  endMs: number
  /** It returned the score. */
  isScore: boolean
}

/** A server that held up a batch. */
export interface Bottleneck {
  server: number
  /** Scores that it returned. */
  samples: number
  /** Its median time per call, and how many times the median of the other servers that is. */
  medianMs: number
  ratio: number
  /** Time at the end during which only this server still scored. */
  tailMs: number
  /** The estimated time of the batch without this server. */
  withoutMs: number
}

/** Calls per sample after which a replay without an end is given up. */
const MAX_REPLAYED_CALLS = 20
/** A server with fewer scores says nothing. */
const MIN_SCORES = 2
/** A server slower than this many times the others may be a cause. */
const MIN_RATIO = 1.5
/** A cause costs at least this share of the time. */
const MIN_COST = 0.1
/** And at least this many times what any other server costs. Otherwise it is a tie, and none is blamed. */
const MIN_LEAD = 2

/**
 * Finds the server without which a batch would have ended sooner. The recorded calls are replayed: each slot of a server
 * takes the next sample when it is free, for as long as the next recorded call of that server, and a sample whose call
 * failed waits again. The number of slots is the largest number of concurrent calls. The estimate is scaled by the ratio of recorded and replayed time of all servers.
 * Null: none stands out.
 * @param totalMs the time of the batch
 */
export function findBottleneck(calls: readonly ServedCall[], totalMs: number): Bottleneck | null {
  const byServer = Map.groupBy(calls, ({ server }) => server)
  const scores = calls.filter(({ isScore }) => isScore).length
  const servers = [...byServer].map(([server, own]) => ({
    server,
    durations: own.filter(({ isScore }) => isScore).map(({ startMs, endMs }) => endMs - startMs),
    calls: own.toSorted((a, b) => a.startMs - b.startMs),
    slots: mostConcurrent(own),
  }))
  const able = servers.filter(({ durations }) => durations.length >= MIN_SCORES)
  if (able.length < 2) return null
  const firstMs = Math.min(...calls.map(({ startMs }) => startMs))
  const replayedMs = firstMs + replay(able, scores)
  const found = able.map((one) => {
    const others = able.filter(({ server }) => server !== one.server)
    const usualMs = medianOf(others.map(({ durations }) => medianOf(durations)))
    const withoutMs = ((firstMs + replay(others, scores)) * totalMs) / replayedMs
    const medianMs = medianOf(one.durations)
    return { one, medianMs, ratio: medianMs / usualMs, withoutMs, costMs: totalMs - withoutMs }
  })
  const [first, second] = found.toSorted((a, b) => b.costMs - a.costMs)
  if (first === undefined || first.ratio < MIN_RATIO) return null
  if (first.costMs < MIN_COST * totalMs) return null
  if (second !== undefined && first.costMs < MIN_LEAD * second.costMs) return null
  const { server, durations } = first.one
  const othersEnd = Math.max(
    ...calls.filter((call) => call.server !== server && call.isScore).map(({ endMs }) => endMs),
  )
  const ownEnd = Math.max(
    ...calls.filter((call) => call.server === server && call.isScore).map(({ endMs }) => endMs),
  )
  return {
    ...{ server, samples: durations.length, medianMs: first.medianMs, ratio: first.ratio },
    ...{ tailMs: Math.max(0, ownEnd - othersEnd), withoutMs: first.withoutMs },
  }
}

/** The time until the last of `samples` samples has its score. */
function replay(
  servers: readonly { calls: readonly ServedCall[]; slots: number }[],
  samples: number,
): number {
  const slots = servers.flatMap(({ slots }, server) =>
    Array.from({ length: slots }, () => ({ freeMs: 0, server })),
  )
  const taken = servers.map(() => 0)
  // Times from which samples wait for a slot; at first all of them.
  const waiting = new Array<number>(samples).fill(0)
  let endMs = 0
  for (let next = 0; next < waiting.length; next++) {
    let free = slots[0]
    for (const slot of slots) if (free === undefined || slot.freeMs < free.freeMs) free = slot
    if (free === undefined || waiting.length > MAX_REPLAYED_CALLS * samples)
      return Number.POSITIVE_INFINITY
    const { calls } = servers[free.server] as (typeof servers)[number]
    const at = taken[free.server] as number
    taken[free.server] = at + 1
    const call = calls[at % calls.length] as ServedCall
    free.freeMs = Math.max(free.freeMs, waiting[next] as number) + call.endMs - call.startMs
    if (call.isScore) endMs = Math.max(endMs, free.freeMs)
    else waiting.push(free.freeMs)
  }
  return endMs
}

/** The largest number of calls at one time. */
function mostConcurrent(calls: readonly ServedCall[]): number {
  const events = calls.flatMap(({ startMs, endMs }) => [
    { at: startMs, change: 1 },
    { at: endMs, change: -1 },
  ])
  // An end before a start at the same time: a slot that is taken again is one slot.
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
