import { describe, expect, test } from 'vitest'
import { type BalancingPolicy, type PolicyServer, roundRobin } from './policy.ts'

/** Every policy passes these; add it here when it comes. */
const policies: Record<string, () => BalancingPolicy> = { round_robin: roundRobin }

const server = (id: number, weight = 1, inFlight = 0): PolicyServer => ({
  id,
  weight,
  inFlight,
  slots: 64,
})

describe.each(Object.entries(policies))('policy %s', (name, make) => {
  test('has its name', () => expect(make().name).toBe(name))

  test('picks one of the candidates, whatever they are', () => {
    const policy = make()
    const all = [server(1), server(2, 3), server(3, 0.5), server(4, 100)]
    for (let i = 1; i < 16; i++) {
      const candidates = all.filter((_, bit) => (i >> bit) & 1)
      for (let n = 0; n < 20; n++) {
        expect(candidates).toContain(policy.pick(candidates, n % 2 === 0 ? `k${n}` : undefined))
      }
    }
  })

  test('takes the only one there is', () => {
    const only = server(7)
    expect(make().pick([only], undefined)).toBe(only)
  })

  test('starves none of several equal ones', () => {
    const policy = make()
    const candidates = [server(1), server(2), server(3)]
    const picked = new Map<number, number>()
    for (let i = 0; i < 300; i++) {
      const { id } = policy.pick(candidates, `key-${i}`)
      picked.set(id, (picked.get(id) ?? 0) + 1)
    }
    for (const { id } of candidates) expect(picked.get(id) ?? 0).toBeGreaterThan(30)
  })

  test('goes on after one is forgotten and comes back', () => {
    const policy = make()
    const candidates = [server(1), server(2)]
    for (let i = 0; i < 7; i++) policy.pick(candidates, undefined)
    policy.forget(2)
    for (let i = 0; i < 7; i++) expect(policy.pick([server(1)], undefined).id).toBe(1)
    const after = new Set(Array.from({ length: 20 }, (_, i) => policy.pick(candidates, `${i}`).id))
    expect(after).toEqual(new Set([1, 2]))
  })

  test('does not change the candidates', () => {
    const candidates = Object.freeze([Object.freeze(server(1)), Object.freeze(server(2))])
    for (let i = 0; i < 5; i++) make().pick(candidates, undefined)
    expect(candidates.map(({ id }) => id)).toEqual([1, 2])
  })
})

describe('round_robin', () => {
  test('shares by weight, and smoothly', () => {
    const policy = roundRobin()
    const candidates = [server(1, 5), server(2, 1), server(3, 1)]
    const order = Array.from({ length: 14 }, () => policy.pick(candidates, undefined).id)
    expect(order).toEqual([1, 1, 2, 1, 3, 1, 1, 1, 1, 2, 1, 3, 1, 1])
  })

  test('equal weights take turns', () => {
    const policy = roundRobin()
    const candidates = [server(1), server(2), server(3)]
    const order = Array.from({ length: 6 }, () => policy.pick(candidates, undefined).id)
    expect(order).toEqual([1, 2, 3, 1, 2, 3])
  })
})
