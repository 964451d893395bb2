import { expect, it } from 'vitest'
import { SwapList } from './swap-list.ts'

it('contains the items added and not removed', () => {
  const items = Array.from({ length: 100 }, (_, n) => ({ n, at: -1 }))
  const list = new SwapList<(typeof items)[number]>(
    (item) => item.at,
    (item, at) => {
      item.at = at
    },
  )
  const inside = new Set<(typeof items)[number]>()
  let seed = 3
  for (let i = 0; i < 5_000; i++) {
    seed = (seed * 1_103_515_245 + 12_345) % 2_147_483_648
    const item = items[(seed >> 8) % items.length]!
    if (inside.delete(item)) list.delete(item)
    else {
      inside.add(item)
      list.add(item)
    }
    for (const other of items.slice(0, 3)) if (!inside.has(other)) list.delete(other)
    expect(list.size).toBe(inside.size)
  }
  expect(new Set(list.all())).toEqual(inside)
  for (const item of list.all()) list.delete(item)
  expect(list.all()).toEqual([])
  expect(items.every(({ at }) => at === -1)).toBe(true)
})
