import { describe, expect, test } from 'vitest'
import { Capacity, type CapacitySettings, type Ticket } from './capacity.ts'
import { VirtualClock } from './clock.ts'

const SETTINGS: CapacitySettings = { tokensPerSecond: 8000, saturation: 8, running: 64, speed: 1 }

function schedule(
  change: Partial<CapacitySettings>,
  jobs: { tokens?: number; fixedMs?: number }[],
): number[] {
  const clock = new VirtualClock()
  const capacity = new Capacity(clock, { ...SETTINGS, ...change })
  const ends: number[] = []
  jobs.forEach(({ tokens = 0, fixedMs = 0 }, i) => {
    capacity.submit({
      begin: () => tokens,
      fixedMs,
      done: (atMs) => {
        ends[i] = atMs
      },
    })
  })
  clock.run()
  return ends
}
const same = (count: number, tokens: number) => Array.from({ length: count }, () => ({ tokens }))

describe('capacity', () => {
  test('below saturation each job has a fixed share, so one job is as slow as eight', () => {
    expect(schedule({}, same(1, 1000))[0]).toBeCloseTo(1000)
    expect(Math.max(...schedule({}, same(8, 1000)))).toBeCloseTo(1000)
  })

  test('beyond saturation jobs share the rate, and the makespan is the work divided by the rate', () => {
    const ends = schedule({}, same(16, 1000))
    expect(Math.max(...ends)).toBeCloseTo((16 * 1000 * 1000) / 8000)
    expect(Math.min(...ends)).toBeCloseTo(Math.max(...ends))
  })

  test('the makespan of a mixed step is at most 10 % above its lower bound', () => {
    const jobs = Array.from({ length: 200 }, (_, i) => ({ tokens: 100 + ((i * 37) % 900) }))
    const boundMs = (jobs.reduce((sum, job) => sum + job.tokens, 0) / 8000) * 1000
    const makespanMs = Math.max(...schedule({}, jobs))
    expect(makespanMs / boundMs).toBeGreaterThanOrEqual(1 - 1e-9)
    expect(makespanMs / boundMs).toBeLessThan(1.1)
  })

  test('the speed scales all times inversely, including latencies', () => {
    const jobs = [{ tokens: 1000, fixedMs: 200 }]
    expect(schedule({}, jobs)[0]).toBeCloseTo(1200)
    expect(schedule({ speed: 0.35 }, jobs)[0]).toBeCloseTo(1200 / 0.35)
  })

  test('jobs beyond the capacity wait in order of arrival', () => {
    const ends = schedule({ running: 8 }, same(20, 1000))
    expect(ends.map((ms) => Math.round(ms / 1000))).toEqual([
      ...Array(8).fill(1),
      ...Array(8).fill(2),
      ...Array(4).fill(3),
    ])
  })

  test('a waiting job starts at the exact time at which another ends, even if the timer is late', () => {
    const clock = new VirtualClock()
    const late = {
      now: () => clock.now(),
      at: (ms: number, run: () => void) => clock.at(ms + 7, run),
    }
    const capacity = new Capacity(late, { ...SETTINGS, running: 1 })
    const ends: number[] = []
    for (let i = 0; i < 5; i++) {
      capacity.submit({ begin: () => 0, fixedMs: 10, done: (atMs) => ends.push(atMs) })
    }
    clock.run()
    expect(ends.map((ms) => Math.round(ms))).toEqual([10, 20, 30, 40, 50])
  })

  test('the share of a disconnected client goes to the other jobs immediately', () => {
    const clock = new VirtualClock()
    const capacity = new Capacity(clock, { ...SETTINGS, saturation: 1 })
    let end = 0
    const stays = { begin: () => 1000, fixedMs: 0, done: (atMs: number) => (end = atMs) }
    const goes: Ticket = capacity.submit({ begin: () => 1000, fixedMs: 0, done: () => {} })
    capacity.submit(stays)
    clock.run(100)
    expect(capacity.running).toBe(2)
    capacity.remove(goes)
    expect(capacity.running).toBe(1)
    clock.run()
    // The job processes 400 tokens in 100 ms at half the rate, and the other 600 at the full rate.
    expect(end).toBeCloseTo(100 + 600 / 8)
  })

  test('only waiting jobs are removed if the device cannot be stopped', () => {
    const clock = new VirtualClock()
    const capacity = new Capacity(clock, { ...SETTINGS, running: 1 })
    const ended: string[] = []
    const job = (name: string) => ({ begin: () => 8, fixedMs: 0, done: () => ended.push(name) })
    const first = capacity.submit(job('first'))
    const second = capacity.submit(job('second'))
    capacity.remove(first, true)
    capacity.remove(second, true)
    clock.run()
    expect(ended).toEqual(['first'])
  })

  test('jobs make no progress while frozen, and continue afterwards', () => {
    const clock = new VirtualClock()
    const capacity = new Capacity(clock, SETTINGS)
    let end = 0
    const ticket = capacity.submit({ begin: () => 0, fixedMs: 100, done: (atMs) => (end = atMs) })
    clock.run(40)
    capacity.freeze(true)
    clock.run(5000)
    expect(ticket.progress()).toBeCloseTo(0.4)
    expect(end).toBe(0)
    capacity.freeze(false)
    clock.run()
    expect(end).toBeCloseTo(5060)
  })

  test('a changed speed applies from the moment of the change', () => {
    const clock = new VirtualClock()
    const capacity = new Capacity(clock, SETTINGS)
    let end = 0
    capacity.submit({ begin: () => 1000, fixedMs: 0, done: (atMs) => (end = atMs) })
    clock.run(500)
    capacity.set({ speed: 0.5 })
    clock.run()
    expect(end).toBeCloseTo(1500)
  })

  test('thousands of concurrent texts each end at their own time', () => {
    const jobs = Array.from({ length: 20_000 }, (_, i) => ({ fixedMs: 1 + ((i * 7919) % 5000) }))
    const ends = schedule({ running: 100_000 }, jobs)
    for (const [i, { fixedMs }] of jobs.entries()) expect(ends[i]).toBeCloseTo(fixedMs, 4)
  })

  test('without a token rate, tokens cost no time', () => {
    expect(schedule({ tokensPerSecond: Number.POSITIVE_INFINITY }, same(3, 1e9))).toEqual([0, 0, 0])
  })
})
