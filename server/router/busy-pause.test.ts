import { expect, test } from 'vitest'
import { BusyPause } from './busy-pause.ts'

test('the third busy answer without Retry-After pauses; calls sent before the pause do not prolong it', () => {
  const pause = new BusyPause()
  const refused = (startedAtMs: number, nowMs: number) =>
    pause.refused(undefined, startedAtMs, nowMs)
  expect([1, 2, 3].map(() => refused(10, 1_000))).toEqual([false, false, true])
  const { untilMs } = pause
  expect(untilMs).toBeGreaterThan(1_000)
  expect(refused(990, 1_050)).toBe(false)
  expect(pause.untilMs).toBe(untilMs)
  expect(refused(1_200, 1_300)).toBe(true)
  expect(pause.untilMs).toBeGreaterThan(untilMs)
  pause.scored()
  expect([1, 2, 3].map(() => refused(2_000, 2_100))).toEqual([false, false, true])
})
