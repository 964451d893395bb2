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
  busy: 0,
  corrupt: 0,
  capacityShare: 0.25,
  p50Ms: 100,
  health: { ok: 3, suspect: 0, ejected: 0, halfOpen: 0, slowStart: 0 },
  inStateMs: 3_600_000,
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
  it('find nothing in a healthy pool', () => {
    expect(seen(four({}))).toEqual([])
    expect(seen([])).toEqual([])
    expect(seen(four({ requests: 0 }, { requests: 0 }))).toEqual([])
  })

  it('find a black hole, which attracts calls and fails them', () => {
    const pool = four({ requests: 6_000, errors: 4_000 }, { capacityShare: 0.25, requests: 900 })
    expect(seen(pool)).toContain('a black_hole error')
    expect(monitorPool(pool)[0]!.text).toMatch(/69 %.*25 %.*67 %/)
    expect(seen(four({ requests: 6_000, errors: 100 }, { requests: 900 }))).not.toContain(
      'a black_hole error',
    )
  })

  it('find one of several equal servers that gets most of the calls', () => {
    expect(seen(four({ requests: 6_000 }))).toEqual(['a tie_collapse warning'])
    expect(monitorPool(four({ requests: 6_000 }))[0]!.text).toMatch(
      /67 % of 9,000 requests.*100 ms/,
    )
    const big = four({ requests: 6_000, capacityShare: 0.7 }, { capacityShare: 0.1 })
    expect(seen(big)).toEqual([])
    const late = four({ requests: 6_000 })
    late[3]!.inStateMs = 60_000
    expect(seen(late)).toEqual([])
  })

  it('find the degraded servers when another gets most of the calls', () => {
    const pool = [
      server('a', { requests: 6_000 }),
      server('b', { requests: 400, errors: 48, p50Ms: 510 }),
      server('c', { requests: 600, errors: 240, busy: 180, corrupt: 60 }),
    ]
    pool[2]!.health = { ok: 1, suspect: 0, ejected: 2, halfOpen: 0, slowStart: 0 }
    expect(seen(pool)).toEqual(['b degraded warning', 'c degraded error'])
    const [slow, failing] = monitorPool(pool).map(({ text }) => text)
    expect(slow).toMatch(/12 % of 400 requests failed.*510 ms.*5\.1 ×.*100 ms/)
    expect(failing).toMatch(/ejected in 2 of 3 processes.*40 % of 600.*30 % busy.*10 % invalid/)
    expect(seen([pool[0]!, server('b', { p50Ms: 200 }), server('c')])).toEqual([])
    expect(seen(four({ requests: 6_000 }, { errors: 40 }))).toEqual([])
  })

  it('find a failing server without peers', () => {
    expect(seen([server('a', { capacityShare: 1, errors: 900 })])).toEqual(['a degraded error'])
    expect(seen([server('a', { capacityShare: 1, errors: 60, client: 60 })])).toEqual([
      'a masked_client_errors warning',
    ])
  })

  it('find retries that return to the same server without need', () => {
    expect(seen(four({ retries: 20, retriesBack: 15 }))).toEqual(['a sticky_retries warning'])
    expect(seen(four({ retries: 20, retriesBack: 5 }))).toEqual([])
    expect(seen([server('a', { retries: 20, retriesBack: 20 })])).toEqual([])
    const out = { ok: 0, suspect: 0, ejected: 3, halfOpen: 0, slowStart: 0 }
    expect(seen(four({ retries: 20, retriesBack: 15 }, { health: out }))).not.toContain(
      'a sticky_retries warning',
    )
  })

  it('find refusals caused by the requests', () => {
    expect(seen(four({ client: 60 }))).toEqual(['a masked_client_errors warning'])
    expect(seen(four({ client: 40 }))).toEqual([])
    const [first] = monitorPool(four({ client: 60, errors: 60 }))
    expect(first!.text).toMatch(/6 % of 1,000 requests.*0 % of its peers/)
    // A judge that withholds its reply or sends an empty one answers with status 200.
    expect(first!.text).toContain('(4xx, or a reply that was withheld or empty)')
  })

  it('find wrong scores', () => {
    expect(seen([server('a', { selfTest: test('differs') })])).toEqual(['a drift error'])
    for (const verdict of ['squashed', 'inverted', 'truncated', 'unverified'] as const) {
      expect(seen([server('a', { selfTest: test(verdict) })])).toEqual(['a squashed_scores error'])
    }
    expect(seen([server('a', { selfTest: test('raw') })])).toEqual([])
  })
})
