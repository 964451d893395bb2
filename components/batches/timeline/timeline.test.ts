import { createElement } from 'react'
import { renderToStaticMarkup } from 'react-dom/server'
import { describe, expect, test } from 'vitest'
import { answer, model, prepare, rowsOf, type Times } from './testing/answers.ts'
import { defaultChunk, prepareRow, type TimelineSort, waitsOf } from './timeline.prepare.ts'
import { TimelineLegend } from './timeline-legend.tsx'
import { hasHoles, mergeTimeline, type SampleMark } from './timeline-model.ts'

const mark = (dispatchedMs: number | null, endedMs: number): SampleMark => ({
  ...{ index: 0, dispatchedMs, endedMs, server: null, reason: null, attempts: 1 },
})

describe('timeline model', () => {
  test('merges each response; repeated data change nothing', () => {
    const first = answer([[[0, 100]], [[0, 50]]], {}, 1)
    const known = mergeTimeline(null, first)
    const again = mergeTimeline(known, { ...first, full: false })
    expect([...again.groups.values()]).toEqual([...known.groups.values()])
    const next = mergeTimeline(known, {
      ...answer([[[0, 100]], [[0, 50]]]),
      full: false,
      samples: { index: [1], group: [0], dispatchedMs: [10], endedMs: [90], server: [0] },
    })
    expect(next.groups.get(0)).toMatchObject({ seq: 2, completedMs: 100 })
    expect(next.groups.get(0)?.samples.map((each) => each.index)).toEqual([1, 0])
    expect(next.groups.get(1)?.samples).toBe(known.groups.get(1)?.samples)
  })

  test('records failures, and the attempts of retried samples', () => {
    const { groups } = model(
      [
        [
          [0, 100],
          [0, 200],
        ],
      ],
      {
        failed: { index: [1], reason: ['timeout'] },
        retried: { index: [1], attempts: [3] },
        calls: {
          ...{ index: [1, 1], startedMs: [0, 80], queueMs: [0, 5], backoffMs: [0, 25] },
          serviceMs: [50, 120],
        },
      },
    )
    expect(groups.get(0)?.samples[1]).toMatchObject({ reason: 'timeout', attempts: 3 })
    expect(groups.get(0)?.lastCalls).toHaveLength(2)
  })

  test('drops the last pending groups when completed groups move to the page', () => {
    const known = model([[[0, 9]], [], []], {}, 1)
    const next = mergeTimeline(known, {
      ...answer([[[0, 9]]], {}, 1),
      full: false,
      groupsInPart: 3,
      groups: { no: [7], uid: ['q7'], size: [1], seq: [2], completedMs: [12] },
      samples: { index: [700], group: [7], dispatchedMs: [0], endedMs: [12], server: [0] },
    })
    expect([...next.groups.keys()].sort()).toEqual([0, 1, 7])
    expect(hasHoles(next)).toBe(false)
  })

  test('detects a complete group with a missing sample', () => {
    const whole = model([
      [
        [0, 5],
        [0, 7],
      ],
    ])
    expect(hasHoles(whole)).toBe(false)
    const torn = answer([
      [
        [0, 5],
        [0, 7],
      ],
    ])
    torn.samples = { ...torn.samples, index: [0], group: [0] }
    expect(hasHoles(mergeTimeline(null, torn))).toBe(true)
    expect(hasHoles(mergeTimeline(null, { ...torn, samplesLeftOut: 1 }))).toBe(false)
  })

  test('clears claims that workers no longer hold', () => {
    const claimed = { group: [0], samples: [2], sinceMs: [40] }
    const known = model([[], []], { claimed }, 0)
    expect(known.groups.get(0)).toMatchObject({ claimed: 2, claimedSinceMs: 40 })
    const next = mergeTimeline(known, answer([[], []], { full: false }, 0))
    expect(next.groups.get(0)).toMatchObject({ claimed: 0, claimedSinceMs: null })
  })
})

describe('timeline row', () => {
  test('spans first dispatch to completion, with the straggler delay', () => {
    const [row] = rowsOf([
      [
        [100, 300],
        [120, 320],
        [110, 1_320],
      ],
    ])
    expect(row).toMatchObject({
      startMs: 100,
      endMs: 1_320,
      medianMs: 220,
      stragglerDelayMs: 1_000,
    })
    expect(row?.waits).toEqual({ queue: 0, router: 0, service: 1_000, retry: 0 })
    expect(row?.cause).toBe('service')
  })

  test('clamps times of a worker clock that is ahead', () => {
    expect(rowsOf([[[500, 400]]])[0]).toMatchObject({
      startMs: 400,
      endMs: 400,
      stragglerDelayMs: 0,
    })
  })

  test('has no start without a dispatch', () => {
    expect(
      rowsOf([
        [
          [null, 400],
          [null, 400],
        ],
      ])[0],
    ).toMatchObject({ startMs: null, endMs: 400 })
  })

  test('has no end and no delay while it runs', () => {
    expect(
      rowsOf(
        [
          [
            [10, 50],
            [10, 900],
          ],
        ],
        {},
        0,
      )[0],
    ).toMatchObject({
      ...{ startMs: 10, endMs: null, last: null, stragglerDelayMs: 0, cause: null },
    })
  })
})

describe('delay causes', () => {
  const calls = [
    { startedMs: 1_000, queueMs: 300, backoffMs: 0, serviceMs: 400 },
    { startedMs: 2_000, queueMs: 200, backoffMs: 400, serviceMs: 500 },
  ]
  test('are the queue before the dispatch and service after it', () => {
    expect(waitsOf(mark(800, 1_000), [], 100)).toMatchObject({ queue: 700, service: 200 })
    expect(waitsOf(mark(null, 1_000), [], 100)).toMatchObject({ queue: 900, service: 0 })
  })
  test('separate the failed request with its backoff, the wait for a server, and the response', () => {
    // Times in ms: request 1,000, failure 1,400, end of backoff 1,800, free server 2,000, response 2,500, result
    // written 2,540.
    expect(waitsOf(mark(1_000, 2_540), calls, 0)).toEqual({
      ...{ queue: 700, router: 500, retry: 800, service: 540 },
    })
  })
  test('cover only the time after the other samples ended', () => {
    expect(waitsOf(mark(1_000, 2_540), calls, 1_900)).toEqual({
      ...{ queue: 0, router: 100, retry: 0, service: 540 },
    })
  })
  test('add up to the delay', () => {
    const row = rowsOf(
      [
        [
          [0, 700],
          [1_000, 2_540],
        ],
      ],
      {
        calls: {
          ...{ index: [1, 1], startedMs: [1_000, 2_000], queueMs: [300, 200] },
          ...{ backoffMs: [0, 400], serviceMs: [400, 500] },
        },
      },
    )[0]
    const sum = Object.values(row?.waits ?? {}).reduce((a, b) => a + b, 0)
    expect(sum).toBeCloseTo(row?.stragglerDelayMs ?? -1)
  })
})

describe('stragglers', () => {
  const even: Times = [
    [0, 1_000],
    [0, 1_010],
    [0, 1_020],
  ]
  const withLast = (endMs: number): Times => [
    [0, 1_000],
    [0, 1_010],
    [0, endMs],
  ]
  test('end unusually long after the median sample of their group', () => {
    const groups = [...Array.from({ length: 30 }, () => even), withLast(2_100)]
    const { stragglers, stragglerDelayMs } = prepare(model(groups))
    expect([...stragglers]).toEqual([30])
    expect(stragglerDelayMs).toBe(1_090)
  })
  test('do not exist in a group whose last two samples are late together', () => {
    const twoLate: Times = [
      [0, 1_000],
      [0, 1_010],
      [0, 1_020],
      [0, 2_090],
      [0, 2_100],
    ]
    const groups = [...Array.from({ length: 9 }, () => even), twoLate]
    expect(prepare(model(groups)).stragglers.size).toBe(0)
  })
  test('do not exist where most groups have a late sample, or delays vary evenly', () => {
    const late = Array.from({ length: 30 }, (_, i) => (i % 3 === 0 ? even : withLast(2_000 + i)))
    expect(prepare(model(late)).stragglers.size).toBe(0)
    const varied = Array.from({ length: 30 }, (_, i) => withLast(1_100 + 50 * i))
    expect(prepare(model(varied)).stragglers.size).toBe(0)
  })
  test('are late by at least 5 % of the batch’s time and 50 ms', () => {
    const of = (endMs: number, batchMs: number) =>
      prepare(model([...Array.from({ length: 30 }, () => even), withLast(endMs), [[0, batchMs]]]))
        .stragglers.size
    expect([of(1_059, 1_060), of(1_061, 1_062)]).toEqual([0, 0])
    expect([of(1_070, 1_071), of(2_100, 10_000), of(2_100, 30_000)]).toEqual([1, 1, 0])
  })
  test('are explained in the legend with all conditions', () => {
    const data = prepare(model([...Array.from({ length: 30 }, () => even), withLast(2_100)]))
    const legend = renderToStaticMarkup(createElement(TimelineLegend, { data, running: false }))
    expect(legend).toMatch(
      /more than 4 median absolute deviations.*at least 5 % .* and 50 ms\..*at least 50 ms after/,
    )
  })
})

describe('order and mini-batches', () => {
  const groups: Times[] = [
    [[50, 400]],
    [[0, 100]],
    [
      [20, 300],
      [20, 900],
    ],
    [[70, 200]],
    [[10, 500]],
  ]
  test('sorts by completion, first dispatch or delay, running groups last', () => {
    const order = (sort: TimelineSort, complete = 5) =>
      prepare(model(groups, {}, complete), sort).rows.map((row) => row.track.no)
    expect(order('completion')).toEqual([1, 3, 0, 4, 2])
    expect(order('dispatch')).toEqual([1, 4, 2, 0, 3])
    expect(order('stragglerDelay')).toEqual([2, 1, 3, 0, 4])
    expect(order('completion', 3)).toEqual([1, 3, 0, 4, 2])
  })
  test('a mini-batch is ready with its last group; the last one has the remaining groups', () => {
    const ready = (ended: boolean, complete = 5) =>
      prepare(model(groups, { ended }, complete), 'completion', 2).miniBatches
    expect(ready(true)).toEqual([
      { no: 1, fromSeq: 1, toSeq: 2, readyMs: 200, afterMs: 200 },
      { no: 2, fromSeq: 3, toSeq: 4, readyMs: 500, afterMs: 300 },
      { no: 3, fromSeq: 5, toSeq: 5, readyMs: 900, afterMs: 400 },
    ])
    expect(ready(false)).toHaveLength(2)
    expect(ready(false, 3)).toHaveLength(1)
    expect(prepare(model(groups)).miniBatches).toEqual([])
  })
  test('a later page continues the numbering, without a time since the previous mini-batch', () => {
    const later = model(groups, { part: 1, partGroups: 5, ended: true })
    later.totals.groups = 10
    const shifted = new Map(
      [...later.groups].map(([no, track]) => [no, { ...track, seq: track.seq + 5 }]),
    )
    const { miniBatches } = prepare({ ...later, groups: shifted }, 'completion', 4)
    expect(miniBatches).toEqual([
      { no: 2, fromSeq: 5, toSeq: 8, readyMs: 400, afterMs: null },
      { no: 3, fromSeq: 9, toSeq: 10, readyMs: 900, afterMs: 500 },
    ])
  })
  test('defaults to a quarter of the groups', () => {
    expect([7, 8, 10, 128].map(defaultChunk)).toEqual([0, 2, 3, 32])
  })
})

test('prepares a row once', () => {
  const track = model([[[0, 1]]]).groups.get(0)
  if (!track) throw new Error('no group')
  expect(prepareRow(track)).toBe(prepareRow(track))
})
