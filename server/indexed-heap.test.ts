import fc from 'fast-check'
import { expect, test } from 'vitest'
import { IndexedHeap } from './indexed-heap.ts'

interface Item {
  key: number
  index: number
}

function heapOf(keys: number[]) {
  const items = keys.map((key) => ({ key, index: -1 }))
  const heap = new IndexedHeap<Item>(
    (a, b) => a.key < b.key,
    (item, index) => {
      item.index = index
    },
  )
  for (const item of items) heap.push(item)
  return { heap, items }
}

test('returns its items in order after removals and moves', () => {
  const changes = fc.array(fc.tuple(fc.nat(), fc.option(fc.integer({ min: -50, max: 50 }))))
  fc.assert(
    fc.property(fc.array(fc.integer({ min: -50, max: 50 })), changes, (keys, steps) => {
      const { heap, items } = heapOf(keys)
      for (const [at, key] of steps) {
        const item = items[at % Math.max(1, items.length)]
        if (item === undefined || item.index < 0) continue
        if (key === null) heap.remove(item.index)
        else {
          item.key = key
          heap.moved(item.index)
        }
      }
      const left = items.filter(({ index }) => index >= 0)
      expect(heap.size).toBe(left.length)
      const order: number[] = []
      for (let first = heap.first; first !== null; first = heap.first) {
        order.push(first.key)
        heap.remove(first.index)
      }
      expect(order).toEqual(left.map(({ key }) => key).sort((a, b) => a - b))
      expect(items.every(({ index }) => index === -1)).toBe(true)
    }),
  )
})

test('finds the first accepted item within its number of checks', () => {
  fc.assert(
    fc.property(fc.array(fc.nat(60)), fc.integer({ min: 2, max: 5 }), (keys, divisor) => {
      const { heap } = heapOf(keys)
      const checks = { left: Number.POSITIVE_INFINITY }
      const found = heap.firstWhere(({ key }) => key % divisor === 0, checks)
      const expected = keys.filter((key) => key % divisor === 0).sort((a, b) => a - b)[0]
      expect(found?.key).toBe(expected)
    }),
  )
  const { heap } = heapOf(Array.from({ length: 1_000 }, (_, i) => i))
  let looked = 0
  const none = heap.firstWhere(
    () => {
      looked++
      return false
    },
    { left: 64 },
  )
  expect(none).toBeNull()
  expect(looked).toBe(64)
})
