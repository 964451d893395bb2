import { describe, expect, test } from 'vitest'
import type { FleetHistoryDto } from '../../server/contract/fleet-history.ts'
import type { Attention } from '../../server/contract/pages.ts'
import type { ServerMonitorDto } from '../../server/contract/server-detail.ts'
import type { ServerDto } from '../../server/contract/servers.ts'
import { prepareAttention } from './attention.prepare.ts'
import { prepareGlance } from './glance.prepare.ts'
import { submitSnippets } from './snippets.ts'
import { extendTrail, TRAIL_LENGTH } from './trail.ts'

describe('onboarding snippets', () => {
  test('contain the URL of the service, and a key header only where keys are required', () => {
    for (const { code } of submitSnippets('http://h:1', false)) {
      expect(code).toContain('http://h:1/api/trpc')
      expect(code).not.toContain('REWARDOPS_KEY')
    }
    for (const { code } of submitSnippets('http://h:1', true))
      expect(code).toContain('REWARDOPS_KEY')
  })

  test('have a JSON body in the curl example', () => {
    const code = submitSnippets('http://h:1', false)[0]?.code ?? ''
    const body = JSON.parse(code.slice(code.indexOf("'{") + 1, code.lastIndexOf("'")))
    expect(body).toMatchObject({ run: 'first-run', samples: [{ uid: 'q1' }, { uid: 'q1' }] })
  })
})

describe('trail', () => {
  test('keeps the last minute; unobserved seconds are gaps', () => {
    expect(extendTrail([1, 2], 1, 3)).toEqual([1, 2, 3])
    expect(extendTrail([1], 3, 4)).toEqual([1, null, null, 4])
    const long = extendTrail(Array(TRAIL_LENGTH).fill(1), 500, 9)
    expect(long).toHaveLength(TRAIL_LENGTH)
    expect(long.filter((reading) => reading !== null)).toEqual([9])
  })
})

describe('attention items', () => {
  const server = (name: string, state: ServerDto['state']) =>
    ({ id: `s-${name}`, name, state, stateCause: 'why' }) as ServerDto
  const sees = (serverName: string, kind: ServerMonitorDto['kind']): ServerMonitorDto => ({
    ...{
      serverId: `s-${serverName}`,
      serverName,
      model: 'm',
      kind,
      severity: 'warning',
      text: 't',
    },
  })

  test('list errors first, link to their servers, and have no duplicates', () => {
    const serviceItems: Attention[] = [
      { level: 'warning', title: 'A worker died', detail: '', href: '/workers' },
      { level: 'error', title: 'a is unreachable', detail: 'd', href: '/servers' },
      { level: 'error', title: 'The scores of b are not raw', detail: 'd', href: '/servers' },
    ]
    const list = prepareAttention(
      serviceItems,
      [server('a', 'unreachable'), server('b', 'quarantined')],
      [sees('b', 'squashed_scores'), sees('a', 'black_hole')],
    )
    expect(list.map(({ title, href }) => `${title} → ${href}`)).toEqual([
      'a is unreachable → /servers/a',
      'The scores of b are not raw → /servers/b',
      'A worker died → /workers',
    ])
    expect(list[0]?.detail).toBe('d Also: black hole.')
    // The items in the query's data stay unchanged.
    expect(serviceItems[1]?.detail).toBe('d')
  })
})

describe('the last hour', () => {
  const none = [0, 0]
  const quantiles = (p95: number | null) => ({ n: 1, p50: p95, p95, p99: p95 })
  const counts = (...series: number[][]) => ({
    series: series.map((values, at) => ({ name: `${at}`, values })),
    others: { n: 2, values: [20, 40] },
  })
  const history: FleetHistoryDto = {
    ...{ from: '2026-11-23T10:00:00.000Z', intervalSeconds: 20, intervals: 2, isRunning: true },
    throughput: counts([40, 80]),
    load: { inFlight: none, capacity: none },
    loopP99Ms: { series: [], n: 0 },
    requests: counts([20, 0], [40, -40]),
    failures: { busy: [2, 0], corrupt: none, client: [0, 4], fault: none },
    retries: {
      byCause: { fault: none, stall: none, busy: none, corrupt: none, client: none },
      ...{ byServer: counts(), hedges: none },
    },
    imbalance: {
      series: [
        { name: 'a', values: [1, null] },
        { name: 'b', values: [1.5, null] },
      ],
      n: 2,
    },
    p95Ms: { series: [], n: 0 },
    events: [],
    latency: {
      queue: [quantiles(10), quantiles(30)],
      router: [],
      service: [quantiles(null), quantiles(8)],
    },
  }

  test('has means of the intervals with a value, and the sum of failed requests', () => {
    const figures = prepareGlance(history) ?? []
    expect(figures.map(({ label, value }) => [label, value.replace('\u00a0', ' ')])).toEqual([
      ['Throughput', '4.5'],
      ['Requests', '2.0'],
      ['Failed requests', '6'],
      ['Imbalance', '1.50×'],
      ['Service time p95', '8 ms'],
      ['Queue time p95', '20 ms'],
    ])
    expect(figures.map(({ readings }) => readings)).toEqual([
      ...[
        [3, 6],
        [4, 0],
        [2, 4],
        [1.5, null],
        [null, 8],
        [10, 30],
      ],
    ])
  })

  test('is not shown without a sample or request', () => {
    const idle = { series: [{ name: 'rm', values: none }], others: null }
    expect(prepareGlance({ ...history, throughput: idle, requests: idle })).toBeNull()
  })
})
