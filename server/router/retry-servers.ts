import type { PoolServer } from './pool-server.ts'
import type { RoutedSample } from './routed-sample.ts'

/** A retry does not wait for a server that pauses longer than this. */
const PAUSE_WORTH_MS = 250

/**
 * Selects the servers with room that may take a sample that lost an attempt. While a usable server is untried, only
 * untried servers qualify, even if all are full now. When all were tried, or the sample's patience is over, any but the
 * last one qualifies; a single server always does. Fills `eligible`; returns false if it is empty.
 */
export function serversForRetry(
  sample: RoutedSample,
  servers: readonly PoolServer[],
  withRoom: readonly PoolServer[],
  eligible: PoolServer[],
  nowMs: number,
): boolean {
  eligible.length = 0
  const last = sample.tried?.at(-1)
  let untried = false
  let other = false
  // The sample's timer ends its patience; without the timer it waits no longer.
  if (sample.timer !== null) {
    for (const server of servers) {
      if (!server.isUsable(nowMs) || server.pause.untilMs - nowMs > PAUSE_WORTH_MS) continue
      if (!sample.hasTried(server)) untried = true
      if (server !== last) other = true
    }
  }
  for (const server of withRoom) {
    if (untried ? !sample.hasTried(server) : !other || server !== last) eligible.push(server)
  }
  if (eligible.length > 1 && !untried && !other) {
    const index = last === undefined ? -1 : eligible.indexOf(last)
    if (index >= 0) eligible.splice(index, 1)
  }
  return eligible.length > 0
}
