import { afterEach, expect, it, vi } from 'vitest'
import { monotonicEpochMs } from '../monotonic-clock.ts'
import { DatabaseClock } from './clock.ts'

afterEach(() => vi.restoreAllMocks())

/** Simulates a report that took `tookMs`, with the database's clock `aheadMs` ahead of this process's. */
function observe(clock: DatabaseClock, aheadMs: number, tookMs: number): void {
  const sentAtMs = monotonicEpochMs() - tookMs
  clock.observe(sentAtMs + tookMs / 2 + aheadMs, sentAtMs)
}

it('follows the database’s clock within half of the round trip', () => {
  const clock = new DatabaseClock()
  observe(clock, 5_000, 10)
  expect(clock.offsetMs).toBeCloseTo(5_000, 0)
  expect(clock.nowMs() - monotonicEpochMs()).toBeCloseTo(5_000, 0)
  // A slow answer is less precise than the quick one before it, so it is ignored.
  observe(clock, 5_090, 400)
  expect(clock.offsetMs).toBeCloseTo(5_000, 0)
  observe(clock, 5_001, 2)
  expect(clock.offsetMs).toBeCloseTo(5_001, 0)
})

it('equals the process’s clock if the round trip is longer than the difference', () => {
  const clock = new DatabaseClock()
  observe(clock, 3, 10)
  expect(clock.offsetMs).toBe(0)
})

it('follows a clock change of the database with the next report', () => {
  const clock = new DatabaseClock()
  observe(clock, 5_000, 2)
  observe(clock, 5_000 - 3_600_000, 50)
  expect(clock.offsetMs).toBeCloseTo(5_000 - 3_600_000, 0)
})

it('does not move when this machine’s clock is set', () => {
  const clock = new DatabaseClock()
  observe(clock, 0, 2)
  const before = clock.nowMs()
  vi.spyOn(Date, 'now').mockReturnValue(before + 3_600_000)
  expect(clock.nowMs() - before).toBeLessThan(60_000)
})
