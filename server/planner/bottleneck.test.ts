import { describe, expect, it } from 'vitest'
import { findBottleneck, type ServedCall } from './bottleneck.ts'

/** Serves samples as a router does that fills every free slot: returns the calls and the time of the batch. */
function serve(
  servers: readonly { slots: number; durationMs(i: number): number; failsFirst?: number }[],
  samples: number,
): { calls: ServedCall[]; totalMs: number } {
  const calls: ServedCall[] = []
  const slots = servers.flatMap(({ slots }, server) =>
    Array.from({ length: slots }, () => ({ server, freeMs: 5 })),
  )
  const failed = servers.map(() => 0)
  let queued = samples
  for (let i = 0; queued > 0; i++) {
    const slot = slots.reduce((a, b) => (b.freeMs < a.freeMs ? b : a))
    const of = servers[slot.server] as (typeof servers)[number]
    const startMs = slot.freeMs
    const isScore = (failed[slot.server] as number) >= (of.failsFirst ?? 0)
    if (!isScore) failed[slot.server] = (failed[slot.server] as number) + 1
    const endMs = startMs + (isScore ? of.durationMs(i) : 3)
    slot.freeMs = endMs
    calls.push({ server: slot.server, startMs, endMs, isScore })
    if (isScore) queued--
  }
  return { calls, totalMs: Math.max(...calls.map(({ endMs }) => endMs)) }
}

const usual = (i: number) => 100 + ((i * 37) % 40)

describe('the bottleneck of a batch', () => {
  it('is the slow server, with its cost as measured without it', () => {
    const fast = { slots: 8, durationMs: usual }
    const slow = { slots: 8, durationMs: (i: number) => 25 * usual(i) }
    const { calls, totalMs } = serve([fast, fast, slow], 200)
    const found = findBottleneck(calls, totalMs)
    expect(found?.server).toBe(2)
    expect(found?.ratio).toBeGreaterThan(20)
    expect(found?.tailMs).toBeGreaterThan(500)
    const { totalMs: without } = serve([fast, fast], 200)
    const cost = totalMs - (found?.withoutMs ?? 0)
    expect(Math.abs(cost / (totalMs - without) - 1)).toBeLessThan(0.2)
  })

  it('is not a server that fails quickly', () => {
    const fast = { slots: 8, durationMs: usual }
    const slow = { slots: 8, durationMs: (i: number) => 25 * usual(i) }
    const { calls, totalMs } = serve([fast, { ...fast, failsFirst: 40 }, slow], 200)
    expect(findBottleneck(calls, totalMs)?.server).toBe(2)
  })

  it('is none among equal servers, or where a slow one still helps', () => {
    const fast = { slots: 8, durationMs: usual }
    const even = serve([fast, fast, fast], 240)
    expect(findBottleneck(even.calls, even.totalMs)).toBeNull()
    const helps = serve([fast, { slots: 8, durationMs: (i) => 2 * usual(i) }], 400)
    expect(findBottleneck(helps.calls, helps.totalMs)).toBeNull()
  })

  it('is none where two servers are equally slow', () => {
    const fast = { slots: 8, durationMs: usual }
    const slow = { slots: 8, durationMs: (i: number) => 25 * usual(i) }
    const tie = serve([fast, slow, slow], 200)
    expect(findBottleneck(tie.calls, tie.totalMs)).toBeNull()
  })

  it('needs two servers', () => {
    const one = serve([{ slots: 4, durationMs: usual }], 40)
    expect(findBottleneck(one.calls, one.totalMs)).toBeNull()
    expect(findBottleneck([], 10)).toBeNull()
  })
})
