import { describe, expect, it } from 'vitest'
import { inPortions } from '../queries/in-portions.ts'
import { findBottleneck, type ServedCall } from './bottleneck.ts'

/** Simulates a router that fills every free slot. Returns the calls and the duration of the batch, ms. */
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

const bottleneckOf = (calls: readonly ServedCall[], totalMs: number) =>
  inPortions(findBottleneck(calls, totalMs))

const usual = (i: number) => 100 + ((i * 37) % 40)

describe('the bottleneck of a batch', () => {
  it('is the slow server, and its cost agrees with a batch without it', async () => {
    const fast = { slots: 8, durationMs: usual }
    const slow = { slots: 8, durationMs: (i: number) => 25 * usual(i) }
    const { calls, totalMs } = serve([fast, fast, slow], 200)
    const slowest = await bottleneckOf(calls, totalMs)
    expect(slowest?.server).toBe(2)
    expect(slowest?.ratio).toBeGreaterThan(20)
    expect(slowest?.tailMs).toBeGreaterThan(500)
    const { totalMs: without } = serve([fast, fast], 200)
    const cost = totalMs - (slowest?.withoutMs ?? 0)
    expect(Math.abs(cost / (totalMs - without) - 1)).toBeLessThan(0.2)
  })

  it('is not a server that fails quickly', async () => {
    const fast = { slots: 8, durationMs: usual }
    const slow = { slots: 8, durationMs: (i: number) => 25 * usual(i) }
    const { calls, totalMs } = serve([fast, { ...fast, failsFirst: 40 }, slow], 200)
    expect((await bottleneckOf(calls, totalMs))?.server).toBe(2)
  })

  it('is the slow server, also if most of its calls fail at first', async () => {
    const fast = { slots: 8, durationMs: usual }
    const slow = { slots: 8, durationMs: (i: number) => 25 * usual(i), failsFirst: 200 }
    const { calls, totalMs } = serve([fast, slow, fast], 200)
    const slowest = await bottleneckOf(calls, totalMs)
    expect(slowest?.server).toBe(1)
    const failed = { server: 0, startMs: totalMs - 2, endMs: totalMs + 500, isScore: false }
    expect((await bottleneckOf([...calls, failed], totalMs))?.tailMs).toBe(slowest?.tailMs)
  })

  it('is none among equal servers, or where a slow one still helps', async () => {
    const fast = { slots: 8, durationMs: usual }
    const even = serve([fast, fast, fast], 240)
    expect(await bottleneckOf(even.calls, even.totalMs)).toBeNull()
    const helps = serve([fast, { slots: 8, durationMs: (i) => 2 * usual(i) }], 400)
    expect(await bottleneckOf(helps.calls, helps.totalMs)).toBeNull()
    const cheap = serve([fast, fast, fast, { slots: 2, durationMs: (i) => 2.5 * usual(i) }], 400)
    expect(await bottleneckOf(cheap.calls, cheap.totalMs)).toBeNull()
  })

  it('is none where two servers are equally slow', async () => {
    const fast = { slots: 8, durationMs: usual }
    const slow = { slots: 8, durationMs: (i: number) => 25 * usual(i) }
    const tie = serve([fast, slow, slow], 200)
    expect(await bottleneckOf(tie.calls, tie.totalMs)).toBeNull()
  })

  it('needs two servers', async () => {
    const one = serve([{ slots: 4, durationMs: usual }], 40)
    expect(await bottleneckOf(one.calls, one.totalMs)).toBeNull()
    expect(await bottleneckOf([], 10)).toBeNull()
  })
})
