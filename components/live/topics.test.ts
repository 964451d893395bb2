import { describe, expect, test } from 'vitest'
import { concerns, EVERYTHING, gapAfter, MAX_GAP_MS, MIN_GAP_MS, takeReady } from './topics.ts'

describe('what is read again', () => {
  test('only what shows a topic that changed; everything after a reconnection', () => {
    expect(concerns(['batch:b1'], new Set(['batch:b2', 'samples']))).toBe(false)
    expect(concerns(['batch:b1', 'samples'], new Set(['samples']))).toBe(true)
    expect(concerns(['batch:b1'], new Set([EVERYTHING]))).toBe(true)
  })

  test('a change that comes while its reading is under way is kept for the next one', () => {
    const view = { name: 'view', topics: ['batch:b1'], busy: true }
    const list = { name: 'list', topics: ['batches'], busy: false }
    const other = { name: 'other', topics: ['workers'], busy: false }
    const { read, stay } = takeReady(new Set(['batch:b1', 'batches']), [view, list, other])
    expect(read).toEqual([list])
    expect(stay).toEqual(new Set(['batch:b1']))
    const then = takeReady(stay, [{ ...view, busy: false }, list, other])
    expect(then.read.map((query) => query.name)).toEqual(['view'])
    expect(then.stay.size).toBe(0)
  })

  test('after a reconnection a busy query keeps its own topics waiting', () => {
    const { stay } = takeReady(new Set([EVERYTHING]), [{ topics: ['batches'], busy: true }])
    expect(stay).toEqual(new Set(['batches']))
  })

  test('a slow service is asked less often, at most a quarter of the time', () => {
    expect([0, 50, 113, 400, 60_000].map(gapAfter)).toEqual([
      MIN_GAP_MS,
      MIN_GAP_MS,
      MIN_GAP_MS,
      1_200,
      MAX_GAP_MS,
    ])
  })
})
