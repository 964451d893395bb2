import type { PoolServer } from './pool-server.ts'
import type { RoutedSample } from './routed-sample.ts'

/** A server that pauses longer than this, by its own Retry-After, is not waited for. */
const PAUSE_WORTH_MS = 250

/**
 * Which servers with room a sample may have that lost an attempt: while a server that takes work is untried, only such
 * ones, be they full now; when all were tried, or its patience is over, any but the last; when there is but that one,
 * that one. Filled into `eligible`; false when there is none.
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
  // The timer that ends its patience is the sample's own; without it the sample waits no longer.
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
