import { expect, test } from 'vitest'
import type { FunctionCall } from './function-call.ts'
import { Suspects } from './suspects.ts'

const calls = (count: number) =>
  Array.from({ length: count }, () => ({ incidents: 0, settled: false }) as FunctionCall)

test('up to 64 run one by one', () => {
  const suspects = new Suspects()
  expect(suspects.add(calls(64), null)).toEqual([])
  expect(suspects.groups).toBe(64)
})

test('the culprit among many is found in a few rounds', () => {
  const suspects = new Suspects()
  const inside = calls(4_096)
  const culprit = inside[1_234] as FunctionCall
  suspects.add(inside, null)
  let runs = 0
  let found: FunctionCall | undefined
  for (let group = suspects.next(); group !== undefined; group = suspects.next()) {
    runs++
    if (!group.includes(culprit)) continue
    if (group.length === 1) found = group[0]
    else suspects.add(group, null)
  }
  expect(found).toBe(culprit)
  expect(runs).toBe(16 + 16 + 16)
})

test('the call seen running runs alone, the others only after a second incident', () => {
  const suspects = new Suspects()
  const inside = calls(3)
  const [a, b, c] = inside as [FunctionCall, FunctionCall, FunctionCall]
  expect(suspects.add(inside, b)).toEqual([a, c])
  expect(suspects.next()).toEqual([b])
  expect(suspects.add([a, c], a)).toEqual([])
  expect(suspects.groups).toBe(2)
  expect(suspects.size).toBe(2)
})

test('a call that has settled is not run', () => {
  const suspects = new Suspects()
  const inside = calls(3)
  suspects.add(inside, null)
  for (const call of inside.slice(0, 2)) call.settled = true
  expect(suspects.next()).toEqual([inside[2]])
  expect(suspects.next()).toBeUndefined()
})
