import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { TimerWheel, type WheelEntry } from './timer-wheel.ts'

class Entry implements WheelEntry {
  dueAtMs: number
  wheelNext: WheelEntry | null = null
  wheelPrev: WheelEntry | null = null
  wheelSlot = -1
  firedAtMs: number | null = null
  constructor(inMs: number) {
    this.dueAtMs = performance.now() + inMs
  }
}

beforeEach(() => {
  vi.useFakeTimers()
})
afterEach(() => {
  vi.useRealTimers()
})

function wheelOf(): TimerWheel<Entry> {
  return new TimerWheel<Entry>((entry) => {
    entry.firedAtMs = performance.now()
  })
}

test('entries are called when due, never early and at most two ticks late, over several turns of the wheel', () => {
  const wheel = wheelOf()
  const entries = [0, 1, 9, 10, 11, 95, 5_119, 5_120, 5_121, 12_345, 300_000].map(
    (inMs) => new Entry(inMs),
  )
  for (const entry of entries) wheel.add(entry)
  vi.advanceTimersByTime(301_000)
  for (const entry of entries) {
    expect(entry.firedAtMs).toBeGreaterThanOrEqual(entry.dueAtMs)
    expect((entry.firedAtMs as number) - entry.dueAtMs).toBeLessThanOrEqual(20)
  }
  expect(wheel.size).toBe(0)
})

test('removed entries are not called, even from the middle of a slot', () => {
  const wheel = wheelOf()
  const entries = Array.from({ length: 9 }, () => new Entry(50))
  for (const entry of entries) wheel.add(entry)
  for (const i of [0, 4, 8, 5]) wheel.remove(entries[i] as Entry)
  wheel.remove(entries[0] as Entry)
  expect(wheel.size).toBe(5)
  vi.advanceTimersByTime(100)
  expect(entries.map((entry) => entry.firedAtMs !== null)).toEqual([
    false,
    true,
    true,
    true,
    false,
    false,
    true,
    true,
    false,
  ])
})

test('the timer runs only while there are entries', () => {
  const wheel = wheelOf()
  expect(vi.getTimerCount()).toBe(0)
  const entry = new Entry(1_000)
  wheel.add(entry)
  expect(vi.getTimerCount()).toBe(1)
  wheel.remove(entry)
  vi.advanceTimersByTime(20)
  expect(vi.getTimerCount()).toBe(0)
  wheel.add(new Entry(30))
  vi.advanceTimersByTime(100)
  expect(wheel.size).toBe(0)
  expect(vi.getTimerCount()).toBe(0)
})

test('entries added while others are called are kept', () => {
  const added = new Entry(40)
  const wheel = new TimerWheel<Entry>((entry) => {
    entry.firedAtMs = performance.now()
    if (entry !== added) wheel.add(added)
  })
  wheel.add(new Entry(10))
  vi.advanceTimersByTime(100)
  expect(added.firedAtMs).not.toBeNull()
})
