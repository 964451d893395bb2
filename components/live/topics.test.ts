import { describe, expect, test } from 'vitest'
import {
  concerns,
  EVERYTHING,
  MAX_PAUSE_MS,
  MIN_GAP_MS,
  PacedReadings,
  pauseAfter,
  SLOW_MS,
} from './topics.ts'

const NOTHING: ReadonlySet<string> = new Set()

describe('paced refetches', () => {
  test('cover only queries of changed topics, and all queries after a reconnection', () => {
    expect(concerns(['batch:b1'], new Set(['batch:b2', 'samples']))).toBe(false)
    expect(concerns(['batch:b1', 'samples'], new Set(['samples']))).toBe(true)
    expect(concerns(['batch:b1'], new Set([EVERYTHING]))).toBe(true)
  })

  test('repeat a query that changes during its current read', () => {
    const view = { key: 'view', topics: ['batch:b1'], busy: true }
    const list = { key: 'list', topics: ['batches'], busy: false }
    const other = { key: 'other', topics: ['workers'], busy: false }
    const readings = new PacedReadings()
    const changed = new Set(['batch:b1', 'batches'])
    expect(readings.take(changed, [view, list, other], 0).ready).toEqual([list])
    const free = { ...view, busy: false }
    expect(readings.take(NOTHING, [free, list, other], 85).ready).toEqual([free])
    expect(readings.take(NOTHING, [free, list, other], 10_000).ready).toEqual([])
  })

  test('skip a query that left its page while due, and mark it as outdated', () => {
    const view = { key: 'view', topics: ['batch:b1'], busy: true }
    const readings = new PacedReadings()
    expect(readings.take(new Set(['batch:b1']), [view], 0)).toEqual({ ready: [], left: new Set() })
    expect(readings.take(NOTHING, [], 85)).toEqual({ ready: [], left: new Set(['view']) })
    expect(readings.take(NOTHING, [], 170)).toEqual({ ready: [], left: new Set() })
  })

  test('let busy queries end their current read first, also after a reconnection', () => {
    const batches = { key: 'a', topics: ['batches'], busy: true }
    const workers = { key: 'b', topics: ['workers'], busy: false }
    const readings = new PacedReadings()
    expect(readings.take(new Set([EVERYTHING]), [batches, workers], 0).ready).toEqual([workers])
    const free = { ...batches, busy: false }
    expect(readings.take(NOTHING, [free, workers], 85).ready).toEqual([free])
  })

  test('repeat a query with its own minimum gap once per gap, however often its data changes', () => {
    const history = { key: 'history', topics: ['workers'], busy: false, minGapMs: 2_000 }
    const changed = new Set(['workers'])
    const readings = new PacedReadings()
    const readAt: number[] = []
    for (let now = 0; now <= 6_000; now += 100) {
      if (readings.take(now <= 4_100 ? changed : NOTHING, [history], now).ready.length === 0)
        continue
      readAt.push(now)
      readings.ended('history', now, now + 20)
    }
    // The changes end at 4,100 ms. The read at 6,000 ms returns the last change.
    expect(readAt).toEqual([0, 2_000, 4_000, 6_000])
  })

  test('give each query its own pace', () => {
    const figures = { key: 'figures', topics: ['batch:b1'], busy: false }
    const timeline = { key: 'timeline', topics: ['batch:b1'], busy: false }
    const changed = new Set(['batch:b1'])
    const readings = new PacedReadings()
    const keysAt = (now: number, timelineBusy = false) =>
      readings
        .take(changed, [figures, { ...timeline, busy: timelineBusy }], now)
        .ready.map(({ key }) => key)
    expect(keysAt(0)).toEqual(['figures', 'timeline'])
    readings.ended('figures', 0, 20)
    expect(keysAt(200, true)).toEqual([])
    expect(keysAt(MIN_GAP_MS, true)).toEqual(['figures'])
    readings.ended('figures', MIN_GAP_MS, MIN_GAP_MS + 20)
    readings.ended('timeline', 0, 400)
    expect(keysAt(2 * MIN_GAP_MS)).toEqual(['figures'])
    readings.ended('figures', 2 * MIN_GAP_MS, 2 * MIN_GAP_MS + 20)
    expect(keysAt(1_200)).toEqual(['figures', 'timeline'])
  })

  test('skip a query that is no longer shown', () => {
    const view = { key: 'view', topics: ['batch:b1'], busy: true }
    const readings = new PacedReadings()
    expect(readings.take(new Set(['batch:b1']), [view], 0).ready).toEqual([])
    expect(readings.take(NOTHING, [], 85).ready).toEqual([])
    expect(readings.take(NOTHING, [{ ...view, busy: false }], 170).ready).toEqual([])
  })

  test('read due queries together after a slow read', () => {
    const figures = { key: 'figures', topics: ['batch:b1'], busy: false }
    const timeline = { key: 'timeline', topics: ['batch:b1'], busy: true }
    const changed = new Set(['batch:b1'])
    const readings = new PacedReadings()
    expect(readings.take(NOTHING, [figures, timeline], 0).ready).toEqual([])
    expect(readings.take(changed, [figures, timeline], SLOW_MS - 1).ready).toEqual([figures])
    expect(readings.take(changed, [figures, timeline], SLOW_MS + MIN_GAP_MS).ready).toEqual([])
    const free = { ...timeline, busy: false }
    expect(readings.take(NOTHING, [figures, free], 9_000).ready).toEqual([figures, free])
  })

  test('read a slow query for at most a third of the time', () => {
    expect([0, 50, 113, 400, 60_000].map(pauseAfter)).toEqual([
      MIN_GAP_MS,
      MIN_GAP_MS - 50,
      MIN_GAP_MS - 113,
      800,
      MAX_PAUSE_MS,
    ])
  })
})
