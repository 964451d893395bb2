import { createElement } from 'react'
import { renderToStaticMarkup } from 'react-dom/server'
import { describe, expect, test } from 'vitest'
import { prepareCompletion, timeTicks } from './completion.prepare.ts'
import { logHeight, prepareDistribution } from './distribution.prepare.ts'
import { dotRadius, prepareDots } from './dot-strip.prepare.ts'
import { DotStrip } from './dot-strip.tsx'
import { prepareCauses, prepareCounts, prepareDurations, prepareLines } from './history.prepare.ts'
import { nameHash, outcomeColors, pickHue } from './hue.ts'
import { prepareSparkline } from './sparkline.prepare.ts'
import { linearTicks, timeLabel } from './ticks.ts'
import { prepareWaterfall } from './waterfall.prepare.ts'

describe('distribution', () => {
  const bars = {
    kind: 'bars' as const,
    n: 1_000,
    bins: [
      { from: 0, to: 0, count: 999 },
      { from: 1, to: 1, count: 1 },
    ],
  }

  test('has bars with value, count and share of n', () => {
    const { rows, n, ticks } = prepareDistribution(bars, { log: false })
    expect(n).toBe(1_000)
    expect(rows.map((row) => [row.label, row.count, row.share, row.height])).toEqual([
      ['0', 999, '99.9\u00a0%', 999],
      ['1', 1, '0.1\u00a0%', 1],
    ])
    expect(ticks.at(-1)?.at).toBeGreaterThanOrEqual(999)
  })

  test('draws 1 above 0 on the log axis, with one tick per decade', () => {
    expect([0, 1, 10, 1_000].map(logHeight)).toEqual([0, 1, 2, 4])
    const { ticks } = prepareDistribution(bars, { log: true })
    expect(ticks.map((tick) => tick.label)).toEqual(['0', '1', '10', '100', '1,000'])
  })

  test('labels bin edges with enough digits', () => {
    const bins = [0, 1, 2].map((i) => ({ from: i * 0.05, to: (i + 1) * 0.05, count: i }))
    const { rows } = prepareDistribution({ kind: 'histogram', n: 3, bins }, { log: false })
    expect(rows.map(({ tick }) => tick)).toEqual(['0.00', '0.05', '0.10'])
  })

  test('counts a score on the edge of two bins in the upper one', () => {
    const bins = [0, 1, 2].map((i) => ({ from: i * 0.25, to: (i + 1) * 0.25, count: i }))
    const { rows } = prepareDistribution({ kind: 'histogram', n: 3, bins }, { log: false })
    const owners = (score: number) =>
      rows.filter(({ from, most }) => score >= from && score <= most).map(({ label }) => label)
    expect([0.2499999, 0.25, 0.5, 0.75].map(owners)).toEqual([
      ['0 to 0.250'],
      ['0.250 to 0.500'],
      ['0.500 to 0.750'],
      ['0.500 to 0.750'],
    ])
    expect(prepareDistribution(bars, { log: false }).rows.map(({ most }) => most)).toEqual([0, 1])
  })

  test('has few, whole count ticks up to the maximum', () => {
    for (const most of [1, 2, 3, 7, 40, 999, 1_000, 32_768, 1_000_000]) {
      const ticks = linearTicks(most)
      expect(ticks.every((tick) => Number.isInteger(tick.at))).toBe(true)
      expect(ticks.length).toBeLessThanOrEqual(7)
      expect(ticks.at(-1)?.at).toBeGreaterThanOrEqual(most)
    }
    expect(linearTicks(0)).toEqual([{ at: 0, label: '0' }])
  })
})

describe('completion', () => {
  const completion = [
    { ms: 100, groups: 1 },
    { ms: 400, groups: 5 },
    { ms: 900, groups: 10 },
  ]

  test('starts at 0, and has the times to p50 and to all groups', () => {
    const data = prepareCompletion(completion, 10, null)
    expect(data.points[0]).toEqual({ ms: 0, groups: 0 })
    expect([data.halfMs, data.allMs, data.endMs]).toEqual([400, 900, 900])
    expect(data.waiting).toEqual([])
  })

  test('draws the wait since the last completion separately, up to now', () => {
    const data = prepareCompletion(completion, 20, 5_000)
    expect(data.waiting).toEqual([
      { ms: 900, groups: 10 },
      { ms: 5_000, groups: 10 },
    ])
    expect([data.halfMs, data.allMs]).toEqual([900, null])
    // The axis of a running batch ends at the next tick.
    expect(data.endMs).toBe(5_000)
    for (const ms of [31_000, 34_999]) {
      const { endMs, ticks } = prepareCompletion(completion, 20, ms)
      expect([endMs, ticks.at(-1)?.at]).toEqual([40_000, 40_000])
    }
  })

  test('has no times without groups', () => {
    const data = prepareCompletion([], 0, null)
    expect([data.halfMs, data.allMs]).toEqual([null, null])
  })

  test('has at most seven round time ticks', () => {
    expect(timeTicks(900).map((tick) => tick.label)).toEqual([
      '0',
      '200\u00a0ms',
      '400\u00a0ms',
      '600\u00a0ms',
      '800\u00a0ms',
    ])
    for (const end of [1, 77, 5_300, 61_000, 3_700_000, 9e8]) {
      expect(timeTicks(end).length).toBeLessThanOrEqual(7)
    }
  })
})

describe('sparkline', () => {
  test('keeps gaps, and draws a single reading as a dot', () => {
    const shape = prepareSparkline([1, 2, null, 3, null, 4, 2], 60, 10)
    expect(shape.lines).toHaveLength(3)
    expect(shape.lines[1]).toMatch(/h0\.01$/)
    expect(shape.last?.x).toBe(60)
  })

  test('draws zeros on the baseline, and has no last reading after a gap', () => {
    expect(prepareSparkline([0, 0], 10, 10).lines).toEqual(['M0 8.5L10 8.5'])
    expect(prepareSparkline([3, null], 10, 10).last).toBeNull()
    expect(prepareSparkline([null, null], 10, 10).lines).toEqual([])
    // A fitted scale spans the readings.
    expect(prepareSparkline([0.7, 0.8], 10, 10, [], { fit: true }).lines).toEqual(['M0 8.5L10 1.5'])
    expect(prepareSparkline([0.7, 0.7], 10, 10, [], { fit: true }).lines).toEqual(['M0 5L10 5'])
    expect(prepareSparkline([null], 10, 10, [], { fit: true }).lines).toEqual([])
  })
})

describe('dots', () => {
  test('merge equal scores; samples without a score are counted separately', () => {
    const { dots, withoutScore } = prepareDots([0, 0, 1, null], { min: 0, max: 1 })
    expect(dots).toEqual([
      { x: 0, count: 2 },
      { x: 1, count: 1 },
    ])
    expect(withoutScore).toBe(1)
  })

  test('of a group that lost its scores distinguish the failed sample from the others', () => {
    const strip = { scores: Array(8).fill(null), scale: { min: 0, max: 1 }, mean: null }
    const html = (failed: number) =>
      renderToStaticMarkup(createElement(DotStrip, { ...strip, failed }))
    expect(html(1)).toContain('title="1 sample failed"')
    expect(html(1)).toContain('title="7 samples have no score"')
    expect(html(7)).toContain('title="1 sample has no score"')
    expect(html(8)).toContain('title="8 samples failed"')
    expect(html(8)).not.toContain('have no score')
  })

  test('are in the middle of a scale without extent, and at the edge outside the scale', () => {
    expect(prepareDots([2, 2], { min: 2, max: 2 }).dots).toEqual([{ x: 0.5, count: 2 }])
    expect(prepareDots([9], { min: 0, max: 1 }).dots).toEqual([{ x: 1, count: 1 }])
  })

  test('grow with their count, up to a limit', () => {
    expect(dotRadius(4)).toBeGreaterThan(dotRadius(1))
    expect(dotRadius(10_000)).toBe(5.5)
  })
})

describe('waterfall', () => {
  const attempt = {
    workerId: 'w1',
    serverName: 'rm-1',
    statusCode: null,
    detail: null,
    queueMs: 0,
    backoffMs: 0,
  }
  const submittedAt = '2026-11-20T12:00:00.000Z'
  const at = (ms: number) => new Date(Date.parse(submittedAt) + ms).toISOString()

  test('has queue, failed attempt, backoff and attempt in order on one scale', () => {
    const data = prepareWaterfall({
      submittedAt,
      queueMs: 100,
      scoreMs: 300,
      attemptLog: [
        {
          ...attempt,
          attempt: 1,
          startedAt: at(100),
          serviceMs: 80,
          outcome: 'failed',
          reason: 'transport',
        },
        {
          ...attempt,
          attempt: 2,
          startedAt: at(250),
          queueMs: 10,
          backoffMs: 60,
          serviceMs: 150,
          outcome: 'ok',
          reason: null,
        },
      ],
    })
    expect(data.totalMs).toBe(400)
    expect(
      data.rows.map((row) =>
        row.segments.map((each) => [each.kind, each.from * 100, each.share * 100]),
      ),
    ).toEqual([
      [['queue', 0, 25]],
      [['failed', 25, 20]],
      [
        ['backoff', 45, 15],
        ['slot', 60, 2.5],
        ['service', 62.5, 37.5],
      ],
    ])
  })

  test('has concurrent attempts side by side, each with its own key', () => {
    const vote = { ...attempt, outcome: 'ok', reason: null, queueMs: 40 }
    const data = prepareWaterfall({
      submittedAt,
      queueMs: 100,
      scoreMs: 100,
      attemptLog: [
        { ...vote, attempt: 1, startedAt: at(100), serviceMs: 60 },
        { ...vote, attempt: 1, startedAt: at(110), serviceMs: 90 },
      ],
    })
    expect(data.totalMs).toBe(200)
    expect(new Set(data.rows.map(({ key }) => key)).size).toBe(3)
    expect(data.rows.map(({ segments }) => segments.at(-1)?.from)).toEqual([0, 0.5, 0.55])
  })

  test('keeps attempts in order and inside the total when a worker clock is off', () => {
    const data = prepareWaterfall({
      submittedAt,
      queueMs: 100,
      scoreMs: 100,
      attemptLog: [
        {
          ...attempt,
          attempt: 1,
          startedAt: at(-90_000),
          serviceMs: 100,
          outcome: 'ok',
          reason: null,
        },
      ],
    })
    expect(data.totalMs).toBe(200)
    expect(data.rows[1]?.segments).toEqual([{ kind: 'service', from: 0.5, share: 0.5, ms: 100 }])
  })

  test('is empty before the first dispatch', () => {
    expect(
      prepareWaterfall({ submittedAt, queueMs: null, scoreMs: null, attemptLog: [] }).rows,
    ).toEqual([])
  })
})

describe('hues', () => {
  test('keep the hashed hue while it is free; eight names have eight hues', () => {
    const taken: number[] = []
    for (let i = 0; i < 8; i++) taken.push(pickHue(`server-${i}`, taken))
    expect(new Set(taken).size).toBe(8)
    expect(pickHue('rm-1', [])).toBe((nameHash('rm-1') % 8) + 1)
  })

  test('are shared from the ninth name on', () => {
    expect(pickHue('rm-1', [1, 2, 3, 4, 5, 6, 7, 8])).toBe((nameHash('rm-1') % 8) + 1)
  })
})

describe('colors of outcomes', () => {
  const colorsOf = (...verdicts: string[]) => {
    const outcomes = verdicts.map((label) => ({ kind: 'verdict' as const, label }))
    const colors = outcomeColors(outcomes)
    return Object.fromEntries(verdicts.map((name, at) => [name, colors[at]]))
  }

  test('differ between incorrect verdicts of one chart', () => {
    expect(colorsOf('none passed', 'all passed', 'some passed')).toEqual({
      ...{ 'none passed': 'var(--data-2)', 'all passed': 'var(--data-3)' },
      'some passed': 'var(--data-7)',
    })
    expect(colorsOf('different', 'equal', 'no answer')).toEqual({
      ...{ different: 'var(--data-2)', equal: 'var(--data-3)', 'no answer': 'var(--data-1)' },
    })
  })

  test('differ while hues are left, and from the gray of other verdicts', () => {
    const verdicts = ['equal', 'contained', 'same text', 'different', 'none passed', 'not tested']
    const outcomes = [
      ...verdicts.map((label) => ({ kind: 'verdict' as const, label })),
      { kind: 'other' as const, label: 'other' },
    ]
    const colors = outcomeColors(outcomes)
    expect(new Set(colors).size).toBe(7)
    expect(colors).not.toContain('var(--data-8)')
    const names = Array.from({ length: 8 }, (_, i) => `cause ${i}`)
    expect(new Set(Object.values(colorsOf(...names))).size).toBe(8)
    expect(Object.values(colorsOf(...names, 'cause 8'))).toHaveLength(9)
  })

  test('depend on the names only, not on their order or on earlier charts', () => {
    const names = ['no answer', 'timeout', 'judged', 'equal', 'some passed', 'different']
    const colors = colorsOf(...names)
    colorsOf('does not compile', 'no code')
    expect(colorsOf(...names.toReversed())).toEqual(colors)
    expect(colors['no answer']).toBe(colorsOf('no answer')['no answer'])
  })
})

describe('the fleet over time', () => {
  const times = {
    ...{ from: '2026-11-23T10:00:00.000Z', intervalSeconds: 10, intervals: 3, isRunning: true },
    events: [],
  }

  test('rates are per second, and end with the running interval', () => {
    const series = [
      { name: 'w1', values: [0, 50, 0] },
      { name: 'w2', values: [10, 0, 30] },
    ]
    const others = { n: 2, values: [10, 0, 0] }
    const data = prepareCounts(times, { series, others }, [], { per: 10 })
    expect([data.names, data.others]).toEqual([['w1', 'w2', '2 more'], '2 more'])
    expect(data.rows.map((row) => [row['of:w1'], row['of:w2'], row['of:2 more']])).toEqual([
      [0, 1, 1],
      [5, 0, 0],
      [0, 3, 0],
    ])
    expect(data.rows.map((row) => row.isRunning ?? false)).toEqual([false, false, true])
    expect(data.rows[1]?.at).toBe(Date.parse(times.from) + 10_000)
    expect(data.valueTicks.at(-1)?.at).toBeGreaterThanOrEqual(5)
  })

  test('retries are stacked by cause, without causes that do not occur; hedges are a line', () => {
    const none = [0, 0, 0]
    const byCause = { fault: [0, 4, 0], stall: none, busy: [1, 0, 2], corrupt: none, client: none }
    const data = prepareCauses(times, byCause, [], [{ name: 'hedges', values: [0, 0, 9] }])
    expect([data.names, data.lines]).toEqual([['Fault', 'Busy'], ['hedges']])
    expect(data.rows.map((row) => [row['of:Fault'], row['of:Busy'], row['of:hedges']])).toEqual([
      [0, 1, 0],
      [4, 0, 0],
      [0, 2, 9],
    ])
    expect(data.valueTicks.at(-1)?.at).toBeGreaterThanOrEqual(9)
  })

  test('events of one interval share a line at that interval', () => {
    const event = { name: 'rm-1', cause: '5 consecutive faults', n: 1 }
    const events = [
      { ...event, at: '2026-11-23T10:00:01.000Z', kind: 'ejected' as const, to: 'ejected', n: 4 },
      { ...event, at: '2026-11-23T10:00:09.000Z', kind: 'state' as const, to: 'unreachable' },
      { ...event, at: '2026-11-23T10:00:21.000Z', kind: 'state' as const, to: 'ready' },
      { ...event, at: '2026-11-23T10:00:22.000Z', kind: 'died' as const, name: 'w1', to: null },
    ]
    const data = prepareLines({ ...times, events }, [], ['ejected', 'state'])
    const from = Date.parse(times.from)
    expect(data.events.map(({ at, isBad }) => [at - from, isBad])).toEqual([
      [0, true],
      [20_000, false],
    ])
    expect(data.events.flatMap((mark) => mark.events).map(({ label }) => label.slice(9))).toEqual([
      ...['rm-1 ejected, 4 times', 'rm-1 unreachable', 'rm-1 ready'],
    ])
  })

  test('a range without activity differs from a gap', () => {
    const idle = { series: [{ name: 'w1', values: [0, 0, 0] }], others: null }
    expect(prepareCounts(times, idle, []).hasValues).toBe(false)
    const delays = (values: (number | null)[]) =>
      prepareDurations(times, [{ name: 'w1', values }], [])
    expect([delays([null, 0, 0]), delays([null, null, null])].map((d) => d.hasValues)).toEqual([
      ...[true, false],
    ])
    const lines = prepareLines(times, [{ name: 'x', values: [null, 2, null] }], [])
    expect(lines.rows.map((row) => row['of:x'])).toEqual([null, 2, null])
  })

  test('times have seconds up to an hour, and the date beyond a day', () => {
    const at = new Date(2026, 10, 3, 9, 5, 7).getTime()
    const hour = 3_600_000
    expect([hour, 2 * hour, 24 * hour, 25 * hour].map((span) => timeLabel(at, span))).toEqual([
      ...['09:05:07', '09:05', '09:05', '11-03 09:05'],
    ])
  })
})
