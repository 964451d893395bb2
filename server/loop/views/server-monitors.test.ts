import { describe, expect, it } from 'vitest'
import { monitorPool, type WatchedServer } from './server-monitors.ts'

const server = (name: string, fields: Partial<WatchedServer> = {}): WatchedServer => ({
  id: `s-${name}`,
  name,
  model: 'rm',
  state: 'ready',
  requests: 1_000,
  errors: 0,
  client: 0,
  capacityShare: 0.25,
  retries: 0,
  retriesBack: 0,
  selfTest: null,
  ...fields,
})
const four = (first: Partial<WatchedServer>, others: Partial<WatchedServer> = {}) => [
  server('a', first),
  ...['b', 'c', 'd'].map((name) => server(name, others)),
]
const seen = (pool: WatchedServer[]) =>
  monitorPool(pool).map((m) => `${m.serverName} ${m.kind} ${m.severity}`)
const test = (verdict: NonNullable<WatchedServer['selfTest']>['verdict']) => ({
  verdict,
  raw: 0.5,
  activated: 0.5,
  calibration: 0.5,
  detail: 'Scored so.',
  at: new Date().toISOString(),
  overridden: false,
})

describe('the monitors', () => {
  it('see nothing in a pool that is well', () => {
    expect(seen(four({}))).toEqual([])
    expect(seen([])).toEqual([])
    expect(seen([server('a', { capacityShare: 1, errors: 900 })])).toEqual([])
    expect(seen(four({ requests: 0 }, { requests: 0 }))).toEqual([])
  })

  it('see a black hole: it takes the calls and fails them', () => {
    const pool = four({ requests: 6_000, errors: 4_000 }, { capacityShare: 0.25, requests: 900 })
    expect(seen(pool)).toContain('a black_hole error')
    expect(monitorPool(pool)[0]!.text).toMatch(/69 %.*25 %.*67 %/)
    expect(seen(four({ requests: 6_000, errors: 100 }, { requests: 900 }))).not.toContain(
      'a black_hole error',
    )
  })

  it('see that ties always go one way, among equal servers only', () => {
    expect(seen(four({ requests: 6_000 }))).toEqual(['a tie_collapse warning'])
    const big = four({ requests: 6_000, capacityShare: 0.7 }, { capacityShare: 0.1 })
    expect(seen(big)).toEqual([])
  })

  it('see retries that go back, where they need not', () => {
    expect(seen(four({ retries: 20, retriesBack: 15 }))).toEqual(['a sticky_retries warning'])
    expect(seen(four({ retries: 20, retriesBack: 5 }))).toEqual([])
    expect(seen([server('a', { retries: 20, retriesBack: 20 })])).toEqual([])
  })

  it('see refusals of the requests’ own fault', () => {
    expect(seen(four({ client: 60 }))).toEqual(['a masked_client_errors warning'])
    expect(seen(four({ client: 40 }))).toEqual([])
  })

  it('see scores that are not what they should be', () => {
    expect(seen([server('a', { selfTest: test('differs') })])).toEqual(['a drift error'])
    for (const verdict of ['squashed', 'inverted', 'truncated', 'unverified'] as const) {
      expect(seen([server('a', { selfTest: test(verdict) })])).toEqual(['a squashed_scores error'])
    }
    expect(seen([server('a', { selfTest: test('raw') })])).toEqual([])
  })
})
