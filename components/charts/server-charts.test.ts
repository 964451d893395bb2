import { describe, expect, test } from 'vitest'
import type {
  PoolShareDto,
  ServerEventDto,
  ServerMinuteDto,
} from '../../server/contract/server-detail.ts'
import { prepareBalance } from './balance.prepare.ts'
import { prepareServerMinutes } from './server-minutes.prepare.ts'
import { prepareStateBand } from './state-band.prepare.ts'
import { durationTicks } from './ticks.ts'

const NOW = Date.parse('2026-03-01T12:00:30Z')

function minute(at: string, over: Partial<ServerMinuteDto> = {}): ServerMinuteDto {
  return {
    minute: `2026-03-01T${at}:00.000Z`,
    ...{ requests: 10, errors: 0, retries: 0, hedges: 0, busy: 0, corrupt: 0, client: 0 },
    ...{ p50Ms: 20, p99Ms: 90 },
    ...over,
  }
}

describe('server minutes', () => {
  test('have zeros and gaps without requests, and mark the current minute', () => {
    const { minutes, totals, timed } = prepareServerMinutes(
      [minute('11:57'), minute('11:59', { requests: 4, p50Ms: null, p99Ms: null, errors: 4 })],
      NOW,
    )
    expect(minutes).toHaveLength(61)
    expect(minutes.slice(-4).map((m) => [m.requests, m.p50Ms, m.isRunning])).toEqual([
      [10, 20, false],
      [0, null, false],
      [4, null, false],
      [0, null, true],
    ])
    expect(totals).toMatchObject({ requests: 14, errors: 4, answered: 10, failed: 4 })
    expect(timed).toBe(1)
  })

  test('split failures by class; the answered count is never negative', () => {
    const { minutes } = prepareServerMinutes(
      [
        minute('11:59', { requests: 20, errors: 9, busy: 4, client: 2, corrupt: 1 }),
        minute('12:00', { requests: 1, errors: 3 }),
      ],
      NOW,
    )
    expect(minutes.at(-2)).toMatchObject({
      answered: 11,
      failed: 2,
      busy: 4,
      refused: 2,
      corrupt: 1,
    })
    expect(minutes.at(-1)).toMatchObject({ answered: 0, failed: 3 })
  })

  test('exclude earlier minutes, but keep the time of the last request', () => {
    const data = prepareServerMinutes([minute('08:10'), minute('08:11')], NOW)
    expect(data.totals.requests).toBe(0)
    expect(data.lastCallMs).toBe(Date.parse('2026-03-01T08:11:00Z'))
    expect(prepareServerMinutes([], NOW).lastCallMs).toBeNull()
  })

  test('keep the newest minute of a service clock that is ahead', () => {
    expect(prepareServerMinutes([minute('12:02')], NOW).minutes.at(-1)?.requests).toBe(10)
  })

  test('have round duration ticks in a readable unit', () => {
    expect(durationTicks(87).map((t) => t.label.replace('\u00a0', ' '))).toEqual([
      '0',
      '50 ms',
      '100 ms',
    ])
    expect(durationTicks(3_700).map((t) => t.label.replace('\u00a0', ' '))).toEqual([
      '0',
      '1 s',
      '2 s',
      '3 s',
      '4 s',
    ])
    expect(durationTicks(0)).toEqual([{ at: 0, label: '0' }])
    expect(durationTicks(1_400).at(-1)?.at).toBeGreaterThanOrEqual(1_400)
  })
})

describe('pool balance', () => {
  const server = (name: string, requestShare: number | null, capacityShare: number) =>
    ({ id: name, name, state: 'ready', requestShare, capacityShare }) satisfies PoolShareDto

  test('has both shares on one scale, sorted by name', () => {
    const { rows, ticks, meaning } = prepareBalance(
      [server('rm-10', 0.2, 0.25), server('rm-2', 0.5, 0.25), server('rm-1', 0.3, 0.5)],
      2,
    )
    expect(rows.map((row) => row.name)).toEqual(['rm-1', 'rm-2', 'rm-10'])
    expect(rows.map((row) => row.requestShare)).toEqual([0.3, 0.5, 0.2])
    // The scale ends at the first round share above the largest, so that ten equal servers remain visible.
    expect(ticks.map(({ at }) => at)).toEqual([0, 0.2, 0.4, 0.6])
    expect(rows.map((row) => row.ratio)).toEqual([0.6, 2, 0.8])
    expect(meaning).toContain('rm-2 gets 2.0 times its share of requests')
  })

  test('explains the imbalance in a sentence', () => {
    expect(prepareBalance([server('a', 0.5, 0.5), server('b', 0.5, 0.5)], 1).meaning).toMatch(
      /follow capacity/,
    )
    expect(prepareBalance([server('a', null, 1)], null).meaning).toMatch(/No requests/)
    expect(prepareBalance([server('a', 1, 0)], null).meaning).toMatch(/No server .* is ready/)
    expect(prepareBalance([server('a', 1, 1)], 1).meaning).toMatch(/only server/)
  })
})

describe('state band', () => {
  const ago = (minutes: number) => new Date(NOW - minutes * 60_000).toISOString()
  const event = (
    id: number,
    minutesAgo: number,
    from: string | null,
    to: string,
    kind: ServerEventDto['kind'] = 'state',
  ): ServerEventDto => ({ id, kind, from, to, cause: '', evidence: null, at: ago(minutesAgo) })

  test('covers states up to now, with a gap before the first', () => {
    const band = prepareStateBand(
      [
        event(3, 10, 'unreachable', 'ready'),
        event(2, 20, 'ready', 'unreachable'),
        event(1, 40, null, 'ready'),
      ],
      { state: 'ready', sinceMs: NOW - 10 * 60_000 },
      NOW,
    )
    expect(band.span).toBe('Last hour')
    expect(band.segments.map((s) => s.state)).toEqual(['ready', 'unreachable', 'ready'])
    expect(band.segments[0]?.from).toBeCloseTo(1 / 3)
    expect(band.segments.at(-1)?.to).toBe(1)
  })

  test('covers the newest changes, with the state before them', () => {
    const old = Array.from({ length: 9 }, (_, i) => event(i + 1, 60 * 24 * 3 - i, 'ready', 'ready'))
    const band = prepareStateBand(
      [...Array.from({ length: 8 }, (_, i) => event(30 - i, i, 'a', i % 2 ? 'a' : 'b')), ...old],
      { state: 'b', sinceMs: NOW },
      NOW,
    )
    expect(band.span).toBe('Last 10 min')
    expect(band.segments[0]).toMatchObject({ state: 'ready', from: 0 })
  })

  test('marks health changes; without a state change the current state fills the band', () => {
    const band = prepareStateBand(
      [event(2, 1, 'ok', 'ejected', 'health')],
      { state: 'ready', sinceMs: NOW - 5 * 60_000 },
      NOW,
    )
    expect(band.segments).toMatchObject([{ state: 'ready', from: 0.5, to: 1 }])
    expect(band.marks).toMatchObject([{ kind: 'health', to: 'ejected' }])
  })
})
