import { describe, expect, test } from 'vitest'
import { deterministic } from './deterministic.ts'
import { groupAffinity } from './group-affinity.ts'
import { leastConnections } from './least-connections.ts'
import { leastWork } from './least-work.ts'
import { peakEwma } from './peak-ewma.ts'
import type { PolicyServer } from './policy.ts'
import { roundRobin } from './round-robin.ts'
import { SeenMedian } from './seen-median.ts'

const server = (id: number, facts: Partial<PolicyServer> = {}): PolicyServer => ({
  id,
  weight: 1,
  inFlight: 0,
  slots: 64,
  workTokens: 0,
  tokensPerSecond: null,
  peakMsPerKtok: null,
  externalQueue: 0,
  ...facts,
})
const sample = (tokens = 100, group?: string, key?: string) => ({ tokens, group, key })

describe('round_robin', () => {
  test('distributes smoothly by weight', () => {
    const policy = roundRobin()
    const candidates = [server(1, { weight: 5 }), server(2), server(3)]
    const order = Array.from({ length: 14 }, () => policy.pick(candidates).id)
    expect(order).toEqual([1, 1, 2, 1, 3, 1, 1, 1, 1, 2, 1, 3, 1, 1])
  })

  test('picks servers of equal weight round robin', () => {
    const policy = roundRobin()
    const candidates = [server(1), server(2), server(3)]
    const order = Array.from({ length: 6 }, () => policy.pick(candidates).id)
    expect(order).toEqual([1, 2, 3, 1, 2, 3])
  })
})

describe('least_work', () => {
  test('counts tokens, not samples', () => {
    const candidates = [
      server(1, { inFlight: 1, workTokens: 16_000 }),
      server(2, { inFlight: 9, workTokens: 4_000 }),
    ]
    expect(leastWork().pick(candidates, sample()).id).toBe(2)
    expect(leastConnections().pick(candidates, sample()).id).toBe(1)
  })

  test('picks the server that would finish first: a faster one takes more work', () => {
    const candidates = [
      server(1, { workTokens: 1_000, tokensPerSecond: 10_000 }),
      server(2, { workTokens: 400, tokensPerSecond: 2_000 }),
    ]
    // (1,000 + 100) ÷ 10,000 = 0.11 s against (400 + 100) ÷ 2,000 = 0.25 s.
    expect(leastWork().pick(candidates, sample()).id).toBe(1)
  })

  test('an unmeasured server counts as the median of the measured ones, not as the best or worst', () => {
    const measured = [
      server(1, { tokensPerSecond: 100 }),
      server(2, { tokensPerSecond: 1_000 }),
      server(3, { tokensPerSecond: 10_000 }),
    ]
    const busy = { workTokens: 1_000, inFlight: 1 }
    expect(leastWork().pick([...measured.slice(0, 2), server(4)], sample()).id).toBe(2)
    expect(
      leastWork().pick([{ ...measured[2], ...busy } as PolicyServer, server(4)], sample()).id,
    ).toBe(4)
    expect(leastWork().pick([...measured, server(4)], sample()).id).toBe(3)
  })

  test('counts other clients’ samples as samples of mean size', () => {
    const policy = leastWork()
    const candidates = [
      server(1, { externalQueue: 3, inFlight: 1, workTokens: 500 }),
      server(2, { workTokens: 4_500, inFlight: 1 }),
    ]
    // Tokens: 500 + 3 × 1,000 against 4,500, and in the second case 500 + 5 × 1,000 against 4,500.
    expect(policy.pick(candidates, sample(1_000)).id).toBe(1)
    expect(
      leastWork().pick(
        [{ ...candidates[0], externalQueue: 5 } as PolicyServer, server(2, { workTokens: 4_500 })],
        sample(1_000),
      ).id,
    ).toBe(2)
  })

  test('picks equal servers round robin, even while candidates change', () => {
    const policy = leastWork()
    const all = [server(1), server(2), server(3), server(4)]
    const order = [all, all, all.slice(1), all, all, all].map(
      (candidates) => policy.pick(candidates, sample()).id,
    )
    expect(order).toEqual([1, 2, 3, 4, 1, 2])
  })
})

describe('peak_ewma', () => {
  test('a high latency outweighs a few samples', () => {
    const candidates = [
      server(1, { peakMsPerKtok: 900 }),
      server(2, { peakMsPerKtok: 40, inFlight: 10 }),
    ]
    // Latency × samples: 900 × 1 against 40 × 11.
    expect(peakEwma().pick(candidates, sample()).id).toBe(2)
    expect(
      peakEwma().pick(
        [candidates[0] as PolicyServer, server(2, { peakMsPerKtok: 40, inFlight: 30 })],
        sample(),
      ).id,
    ).toBe(1)
  })
})

describe('group_affinity', () => {
  const ids = (candidates: PolicyServer[], groups: number) =>
    Array.from(
      { length: groups },
      (_, i) => groupAffinity(0).pick(candidates, sample(100, `group ${i}`)).id,
    )

  test('a group has one server while loads are even, regardless of the order of the candidates', () => {
    const candidates = Array.from({ length: 6 }, (_, i) => server(i + 1, { inFlight: 10 }))
    expect(ids(candidates, 50)).toEqual(ids(candidates.toReversed(), 50))
    expect(new Set(ids(candidates, 50)).size).toBe(6)
  })

  test('eight samples of the only group stay together on an idle pool', () => {
    const policy = groupAffinity(0)
    const candidates = Array.from({ length: 4 }, (_, i) => ({ ...server(i + 1), inFlight: 0 }))
    const first = policy.pick(candidates, sample(100, 'g'))
    for (let i = 0; i < 8; i++) {
      const next = policy.pick(candidates, sample(100, 'g'))
      expect(next).toBe(first)
      next.inFlight++
    }
    expect(policy.pick(candidates, sample(100, 'g'))).not.toBe(first)
  })

  test('above the bound, each group moves to the next server in its own order', () => {
    const even = Array.from({ length: 6 }, (_, i) => server(i + 1, { inFlight: 10 }))
    const full = even.map((each) => (each.id === 3 ? { ...each, inFlight: 40 } : each))
    const gone = even.filter(({ id }) => id !== 3)
    expect(ids(full, 200)).toEqual(ids(gone, 200))
    const moved = ids(full, 200).filter((_, i) => ids(even, 200)[i] === 3)
    expect(new Set(moved).size).toBeGreaterThan(3)
  })

  test('removing a server moves only its groups', () => {
    const all = Array.from({ length: 6 }, (_, i) => server(i + 1))
    const before = ids(all, 300)
    const after = ids(all.slice(0, 5), 300)
    for (const [i, id] of before.entries()) if (id !== 6) expect(after[i]).toBe(id)
  })
})

describe('deterministic', () => {
  const log = (seed: number, facts: (id: number) => Partial<PolicyServer>) => {
    const policy = deterministic(seed)
    const candidates = [1, 2, 3, 4].map((id) => server(id, facts(id)))
    return Array.from({ length: 500 }, (_, i) => {
      const key = i % 5 === 0 ? undefined : `run/7/${i}`
      return policy.pick(candidates, sample(i, undefined, key)).id
    })
  }

  test('the same seed and keys give the same assignment, regardless of load', () => {
    const idle = log(7, () => ({}))
    const loaded = log(7, (id) => ({
      inFlight: id * 9,
      workTokens: id * 5_000,
      externalQueue: 40 - id,
      tokensPerSecond: id * 100,
    }))
    expect(loaded).toEqual(idle)
    expect(log(8, () => ({}))).not.toEqual(idle)
  })

  test('gives the same assignment in every build, so a stored assignment can be reproduced', () => {
    expect(log(7, () => ({})).slice(0, 16)).toEqual([
      1, 2, 2, 4, 3, 4, 1, 1, 3, 3, 4, 3, 3, 1, 4, 2,
    ])
  })

  test('distributes by weight', () => {
    const ids = log(7, (id) => ({ weight: id === 1 ? 3 : 1 }))
    expect(ids.filter((id) => id === 1).length / 500).toBeGreaterThan(0.43)
    expect(ids.filter((id) => id === 1).length / 500).toBeLessThan(0.57)
  })
})

test('SeenMedian returns the median of any number of values', () => {
  const median = new SeenMedian()
  expect(median.value).toBe(1)
  for (let i = 0; i < 301; i++) median.add((i * 11) % 301)
  expect(median.value).toBe(150)
  median.clear()
  median.add(5)
  median.add(3)
  expect(median.value).toBe(3)
})
