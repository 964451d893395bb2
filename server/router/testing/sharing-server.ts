import { seededRandom } from '../policies/seeded-random.ts'

/** A simulated server that divides its capacity among its samples, as a batching engine does. */
export interface SharingServer {
  /** Tokens per second with `saturatedBy` samples or more. */
  tokensPerSecond: number
  /** The number of samples that use the server's full capacity. If infinite, samples do not slow each other down. */
  saturatedBy: number
  /**
   * Goodput is divided by 1 + this factor × the samples beyond 2 × `saturatedBy`, counted in units of `saturatedBy`.
   * Default 0, which means no loss.
   */
  thrashing?: number
}

export interface Limiter {
  readonly limit: number
  dispatched(nowMs: number, inFlight: number): void
  completed(nowMs: number, tokens: number, ok: boolean, elapsedMs: number): void
}

/** A sample on a server that is never saturated runs at `tokensPerSecond` divided by this number. */
const SAMPLE_SPEED_OF = 8

export function goodputAt(server: SharingServer, inFlight: number): number {
  const { tokensPerSecond, saturatedBy, thrashing = 0 } = server
  if (saturatedBy === Number.POSITIVE_INFINITY)
    return (tokensPerSecond * inFlight) / SAMPLE_SPEED_OF
  const over = Math.max(0, inFlight - 2 * saturatedBy) / saturatedBy
  return (tokensPerSecond * Math.min(inFlight, saturatedBy)) / saturatedBy / (1 + thrashing * over)
}

export interface Served {
  endMs: number
  tokensPerSecond: number
  limits: number[]
}

/**
 * Sends samples to the server until all are done, with as many in flight as the limiter allows. Sizes are lognormal
 * around 1,000 tokens with sigma `spread`. The work of a sample is its tokens plus 50, times lognormal noise with sigma
 * `noise`. `offered`: the number of samples that the workload would keep in flight at a given time.
 */
export function serve(
  server: SharingServer,
  limiter: Limiter,
  options: {
    samples: number
    seed: number
    spread?: number
    noise?: number
    offered?: (nowMs: number) => number
    fromMs?: number
  },
): Served {
  const { samples, spread = 0.8, noise = 0.2, offered = () => Number.POSITIVE_INFINITY } = options
  const random = seededRandom(options.seed)
  const lognormal = (sigma: number) => {
    const normal = Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random())
    return Math.exp(sigma * normal - (sigma * sigma) / 2)
  }
  let nowMs = options.fromMs ?? 0
  const startMs = nowMs
  const flying: { tokens: number; left: number; atMs: number }[] = []
  const limits: number[] = []
  let sent = 0
  let done = 0
  let doneTokens = 0
  while (done < samples) {
    const most = Math.max(1, Math.min(limiter.limit, offered(nowMs)))
    while (sent < samples && flying.length < most) {
      const tokens = Math.round(Math.max(20, 1_000 * lognormal(spread)))
      flying.push({ tokens, left: (tokens + 50) * lognormal(noise), atMs: nowMs })
      sent++
      limiter.dispatched(nowMs, flying.length)
    }
    const each = goodputAt(server, flying.length) / flying.length
    let first = 0
    for (const [i, { left }] of flying.entries()) {
      if (left < (flying[first]?.left ?? Number.POSITIVE_INFINITY)) first = i
    }
    const [sample] = flying.splice(first, 1)
    if (sample === undefined) break
    nowMs += (sample.left / each) * 1_000
    for (const other of flying) other.left -= sample.left
    done++
    doneTokens += sample.tokens
    limiter.completed(nowMs, sample.tokens, true, nowMs - sample.atMs)
    limits.push(limiter.limit)
  }
  return { endMs: nowMs, tokensPerSecond: (doneTokens / (nowMs - startMs)) * 1_000, limits }
}

export function fixedAt(limit: number): Limiter {
  return { limit, dispatched() {}, completed() {} }
}
