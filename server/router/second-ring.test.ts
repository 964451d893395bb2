import fc from 'fast-check'
import { expect, test } from 'vitest'
import { SecondRing } from './second-ring.ts'

test('counts the events of its window, regardless of pauses', () => {
  fc.assert(
    fc.property(fc.array(fc.tuple(fc.integer({ min: 0, max: 9_000 }), fc.nat(5))), (steps) => {
      const ring = new SecondRing(5)
      const added: [number, number][] = []
      let nowMs = 1_234_567
      for (const [passedMs, count] of steps) {
        nowMs += passedMs
        ring.add(nowMs, count)
        added.push([Math.floor(nowMs / 1_000), count])
        const second = Math.floor(nowMs / 1_000)
        const within = added.filter(([at]) => at > second - 5)
        expect(ring.total(nowMs)).toBe(within.reduce((sum, [, n]) => sum + n, 0))
      }
    }),
  )
})

test('after the clock steps back, events count in the last second known', () => {
  const ring = new SecondRing(3)
  ring.add(10_000)
  ring.add(2_000)
  expect(ring.total(2_000)).toBe(2)
  expect(ring.total(12_999)).toBe(2)
  expect(ring.total(13_000)).toBe(0)
})
