import { describe, expect, test } from 'vitest'
import {
  BALANCING_POLICIES,
  DEFAULT_POLICY,
  isPolicyName,
  POLICY_NAMES,
} from '../../contract/pools.ts'
import type { BalancingPolicy, PolicySample, PolicyServer } from './policy.ts'
import { policyNamed } from './registry.ts'

type TestServer = { -readonly [key in keyof PolicyServer]: PolicyServer[key] }

const server = (id: number, facts: Partial<PolicyServer> = {}): TestServer => ({
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

const servers = (count: number, facts: Partial<PolicyServer> = {}): TestServer[] =>
  Array.from({ length: count }, (_, i) => server(i + 1, facts))

const sample = (i: number): PolicySample => ({
  tokens: 20 + ((i * 7919) % 1_981),
  group: `group-${Math.floor(i / 8)}`,
  key: `sample-${i}`,
})

/**
 * Lets the policy place samples. Each stays in flight until `lifetime` further samples are placed. Returns the tokens and
 * samples of each server.
 */
function place(
  policy: BalancingPolicy,
  candidates: TestServer[],
  samples: number,
  lifetime: number,
) {
  const placed = new Map(candidates.map(({ id }) => [id, { samples: 0, tokens: 0 }]))
  const flying: { at: TestServer; tokens: number }[] = []
  for (let i = 0; i < samples; i++) {
    if (flying.length >= lifetime) {
      const ended = flying.shift() as { at: TestServer; tokens: number }
      ended.at.inFlight--
      ended.at.workTokens -= ended.tokens
    }
    const next = sample(i)
    const at = policy.pick(candidates, next)
    at.inFlight++
    at.workTokens += next.tokens
    flying.push({ at, tokens: next.tokens })
    const share = placed.get(at.id) as { samples: number; tokens: number }
    share.samples++
    share.tokens += next.tokens
  }
  return placed
}

const sequence = (policy: BalancingPolicy, candidates: TestServer[], samples = 200) =>
  Array.from({ length: samples }, (_, i) => policy.pick(candidates, sample(i)).id)

test('the registry knows the policy names, and no others', () => {
  expect(DEFAULT_POLICY).toBe('least_work')
  expect(isPolicyName('least_work')).toBe(true)
  expect(isPolicyName('toString')).toBe(false)
  expect(() => policyNamed('fastest')).toThrow(/unknown policy "fastest"; known: least_work, /)
})

describe.each(POLICY_NAMES)('policy %s', (name) => {
  const make = (seed = 1) => policyNamed(name, { seed })

  test('has the name it is created by', () => expect(make().name).toBe(name))

  test('picks one of the candidates', () => {
    const policy = make()
    const all = [
      server(1),
      server(2, { weight: 3, inFlight: 7, workTokens: 900, tokensPerSecond: 1_000 }),
      server(3, { weight: 0.5, peakMsPerKtok: 40 }),
      server(4, { weight: 100, externalQueue: 12, tokensPerSecond: 50_000 }),
    ]
    for (let i = 1; i < 16; i++) {
      const candidates = all.filter((_, bit) => (i >> bit) & 1)
      for (let n = 0; n < 20; n++) {
        const next = n % 2 === 0 ? sample(n) : { tokens: 1, group: undefined, key: undefined }
        expect(candidates).toContain(policy.pick(candidates, next))
      }
    }
  })

  test('picks a single candidate', () => {
    const only = server(7)
    expect(make().pick([only], sample(0))).toBe(only)
  })

  test('starves none of three equal idle servers', () => {
    const picked = new Map<number, number>()
    for (const id of sequence(make(), servers(3), 2_400)) picked.set(id, (picked.get(id) ?? 0) + 1)
    for (const { id } of servers(3)) expect(picked.get(id) ?? 0).toBeGreaterThan(500)
  })

  test('continues after a server is removed and added again', () => {
    const policy = make()
    const candidates = servers(2)
    sequence(policy, candidates, 7)
    policy.forget(2)
    policy.forget(99)
    expect(new Set(sequence(policy, servers(1), 7))).toEqual(new Set([1]))
    expect(new Set(sequence(policy, candidates, 200))).toEqual(new Set([1, 2]))
  })

  test('does not change the candidates', () => {
    const candidates = Object.freeze([Object.freeze(server(1)), Object.freeze(server(2))])
    const policy = make()
    for (let i = 0; i < 5; i++) policy.pick(candidates, sample(i))
    expect(candidates).toEqual([server(1), server(2)])
  })

  test('the same seed and samples give the same picks', () => {
    const candidates = [
      server(1, { inFlight: 3, workTokens: 1_000, tokensPerSecond: 900, peakMsPerKtok: 20 }),
      server(2, { weight: 2, inFlight: 1, workTokens: 5_000, tokensPerSecond: 700 }),
      ...servers(5).slice(2),
    ]
    expect(sequence(make(42), candidates)).toEqual(sequence(make(42), candidates))
  })

  test('distributes by weight', () => {
    const candidates = [server(1, { weight: 2 }), server(2), server(3)]
    const placed = place(make(), candidates, 4_000, name === 'group_affinity' ? 4_000 : 400)
    const total = [...placed.values()].reduce((sum, { samples }) => sum + samples, 0)
    expect((placed.get(1)?.samples ?? 0) / total).toBeGreaterThan(0.5 * 0.85)
    expect((placed.get(1)?.samples ?? 0) / total).toBeLessThan(0.5 * 1.15)
  })

  test.each([
    ['nothing', {}],
    ['zeros', { weight: 0, tokensPerSecond: 0, peakMsPerKtok: 0, workTokens: 0 }],
    [
      'negatives',
      {
        weight: -1,
        inFlight: -3,
        workTokens: -9,
        tokensPerSecond: -1,
        peakMsPerKtok: -1,
        externalQueue: -1,
      },
    ],
    [
      'NaN',
      {
        weight: Number.NaN,
        inFlight: Number.NaN,
        workTokens: Number.NaN,
        tokensPerSecond: Number.NaN,
        peakMsPerKtok: Number.NaN,
        externalQueue: Number.NaN,
      },
    ],
    [
      '1e9',
      {
        weight: 1e9,
        inFlight: 1e9,
        workTokens: 1e9,
        tokensPerSecond: 1e9,
        peakMsPerKtok: 1e9,
        externalQueue: 1e9,
      },
    ],
    [
      'infinity',
      {
        weight: Number.POSITIVE_INFINITY,
        inFlight: Number.POSITIVE_INFINITY,
        workTokens: Number.POSITIVE_INFINITY,
        tokensPerSecond: Number.POSITIVE_INFINITY,
        peakMsPerKtok: Number.POSITIVE_INFINITY,
        externalQueue: Number.POSITIVE_INFINITY,
      },
    ],
  ] as const)('accepts %s in servers and samples, and still spreads the load', (_, facts) => {
    const policy = make()
    const candidates = servers(4, facts)
    const picked = new Map<number, number>()
    for (let i = 0; i < 2_000; i++) {
      const tokens = [0, -5, Number.NaN, 1e9, Number.POSITIVE_INFINITY, 300][i % 6] as number
      const { id } = policy.pick(candidates, { ...sample(i), tokens })
      picked.set(id, (picked.get(id) ?? 0) + 1)
    }
    for (const { id } of candidates) expect(picked.get(id) ?? 0).toBeGreaterThan(300)
    // With a valid server added to the candidates, the policy may pick any of them.
    const beside = [server(9, { tokensPerSecond: 1_000, peakMsPerKtok: 30 }), ...candidates]
    for (let i = 0; i < 50; i++) expect(beside).toContain(policy.pick(beside, sample(i)))
  })

  test.each([0, -1, Number.NaN, 1e9, Number.POSITIVE_INFINITY])(
    'an external queue of %d, invalid or huge, leaves the shares of equal servers even',
    (externalQueue) => {
      for (const count of [2, 8]) {
        for (const everywhere of [true, false]) {
          // Equal servers get nearly equal shares; random numbers and hashes are not exactly even.
          const candidates = servers(count, everywhere ? { externalQueue } : {})
          ;(candidates[1] as TestServer).externalQueue = externalQueue
          const placed = place(make(), candidates, 1_000, 1_000)
          const most = Math.max(...[...placed.values()].map(({ samples }) => samples))
          expect(most / (1_000 / count)).toBeLessThanOrEqual(1.3)
        }
      }
    },
  )

  if (BALANCING_POLICIES[name].isLoadAware) {
    test('skips a server that has far more than its share', () => {
      const candidates = servers(4)
      ;(candidates[2] as TestServer).inFlight = 500
      ;(candidates[2] as TestServer).workTokens = 500_000
      const ids = sequence(make(), candidates)
      expect(ids.filter((id) => id === 3)).toEqual([])
    })

    test('counts other clients’ samples at a server', () => {
      const candidates = servers(4)
      ;(candidates[2] as TestServer).externalQueue = 100
      expect(sequence(make(), candidates).filter((id) => id === 3)).toEqual([])
    })
  }
})
