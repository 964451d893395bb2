import { seededRandom } from '../policies/seeded-random.ts'

/** A server that divides what it can do among the samples it has, as an engine that batches does. */
export interface SharingServer {
  /** Tokens a second with `saturatedBy` samples or more. */
  tokensPerSecond: number
  /** Samples with which it does all it can; fewer leave a part of it idle. Infinity: each sample has the speed of its own. */
  saturatedBy: number
  /** Beyond twice `saturatedBy` it loses so much by every further `saturatedBy` samples (0: nothing). */
  thrashing?: number
}

/** Something that says how many samples may be in flight. */
export interface Limiter {
  readonly limit: number
  dispatched(nowMs: number, inFlight: number): void
  completed(nowMs: number, tokens: number, ok: boolean, elapsedMs: number): void
}

/** Where each sample has a speed of its own, it is that of a server saturated by so many. */
const SAMPLE_SPEED_OF = 8

/** Tokens a second of the server with `inFlight` samples. */
export function goodputAt(server: SharingServer, inFlight: number): number {
  const { tokensPerSecond, saturatedBy, thrashing = 0 } = server
  if (saturatedBy === Number.POSITIVE_INFINITY)
    return (tokensPerSecond * inFlight) / SAMPLE_SPEED_OF
  const over = Math.max(0, inFlight - 2 * saturatedBy) / saturatedBy
  return (tokensPerSecond * Math.min(inFlight, saturatedBy)) / saturatedBy / (1 + thrashing * over)
}

/** What {@link serve} saw. */
export interface Served {
  /** When the last sample ended. */
  endMs: number
  /** Tokens of all samples a second. */
  tokensPerSecond: number
  /** The limit at each sample's end. */
  limits: number[]
}

/**
 * Sends samples to the server, as many at a time as the limiter says, until all are done. Sizes are lognormal around
 * 1,000 tokens, `spread` its sigma; the work a sample makes differs from its tokens by `noise` (sigma) and by 50 tokens.
 * `offered`: most samples in flight that there is work for, by the time.
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

/** A limiter that never moves. */
export function fixedAt(limit: number): Limiter {
  return { limit, dispatched() {}, completed() {} }
}
