import { describe, expect, test } from 'vitest'
import { prepareDensity } from './density.ts'
import { drawPicture, pictureScene } from './draw-picture.ts'
import { INK_TOKENS, type Inks } from './painter.ts'
import { plotStep } from './plot-keys.ts'
import { layoutPlot } from './plot-layout.ts'
import { svgPainter } from './svg-painter.ts'
import { answer, model, prepare, rowsOf, type Times } from './testing/answers.ts'
import {
  clampWindow,
  idleStretches,
  panWindow,
  type TimeWindow,
  timeScale,
  zoomWindow,
} from './time-scale.ts'
import { rowsBetween } from './timeline.prepare.ts'
import { mergeTimeline } from './timeline-model.ts'
import { timelineView } from './timeline-url.ts'

describe('idle time', () => {
  const rows = rowsOf([[[1_000, 3_000]], [[2_000, 10_000]], [[60_000, 61_000]]])
  test('is the time in which no sample is scored, not the time of a slow sample', () => {
    const [gap, ...more] = idleStretches(rows, 61_000, 61_000)
    expect(more).toEqual([])
    expect(gap?.fromMs).toBeCloseTo(10_000, -2)
    expect(gap?.toMs).toBeCloseTo(60_000, -2)
  })
  test('includes the wait before the first sample, but not the time since the last result', () => {
    const late = rowsOf([[[50_000, 51_000]]])
    expect(idleStretches(late, 80_000, 80_000)).toHaveLength(1)
    expect(idleStretches(late, 80_000, 80_000)[0]?.fromMs).toBe(0)
  })
  test('excludes time in which samples are claimed by workers', () => {
    const claimed = rowsOf([[]], { claimed: { group: [0], samples: [1], sinceMs: [0] } }, 0)
    expect(idleStretches(claimed, 60_000, 60_000)).toEqual([])
  })
  test('is narrow when collapsed, and every time keeps a position', () => {
    const scale = timeScale(61_000, [{ fromMs: 10_000, toMs: 60_000 }])
    expect(scale.at(10_000)).toBe(10_000)
    expect(scale.at(60_000) - scale.at(10_000)).toBeCloseTo(11_000 * 0.025)
    expect(scale.length).toBeCloseTo(11_000 * 1.025)
    for (const ms of [0, 4_000, 10_000, 33_000, 60_000, 61_000])
      expect(scale.ms(scale.at(ms))).toBeCloseTo(ms)
  })
})

describe('zoom', () => {
  const scale = timeScale(10_000, [])
  test('keeps the time under the cursor in place', () => {
    const window = zoomWindow(null, scale, 0.5, 2_000)
    expect(window).toEqual({ fromMs: 1_000, toMs: 6_000 })
    expect(zoomWindow(window, scale, 2, 2_000)).toBeNull()
  })
  test('stays within the batch', () => {
    expect(panWindow({ fromMs: 8_000, toMs: 9_000 }, scale, 5)).toEqual({
      ...{ fromMs: 9_000, toMs: 10_000 },
    })
    expect(clampWindow({ fromMs: -50, toMs: 20_000 }, scale)).toBeNull()
    expect(clampWindow({ fromMs: 10_000, toMs: 10_000 }, scale)).toEqual({
      ...{ fromMs: 9_995, toMs: 10_000 },
    })
  })
})

describe('density', () => {
  test('counts every group and sample at any row height', () => {
    const groups = Array.from(
      { length: 1_000 },
      (_, i): Times => [
        [0, i],
        [10, i + 1],
        [0, i + 5],
      ],
    )
    const { rows } = prepare(model(groups))
    const density = prepareDensity(rows, { width: 100, height: 50 }, (ms) => ms / 10.06, 1_005)
    const sum = (list: Iterable<number>) => [...list].reduce((a, b) => a + b, 0)
    expect(sum(density.ends)).toBe(3_000)
    expect(sum(density.perRow)).toBe(1_000)
    const first = Array.from({ length: 50 }, (_, y) => density.groups[y * 101] ?? 0)
    expect(first.reduce((a, b) => a + b, 0)).toBe(1_000)
    expect(density.groups[99]).toBe(0)
    const before = density.ends.slice()
    const again = prepareDensity(
      rows,
      { width: 100, height: 50 },
      (ms) => ms / 10.06,
      1_005,
      density,
    )
    expect(again).toBe(density)
    expect(again.ends).toEqual(before)
  })
  test('counts failed samples separately, and only within the window', () => {
    const { rows } = prepare(
      model(
        [
          [
            [0, 50],
            [0, 500],
          ],
        ],
        { failed: { index: [0], reason: ['timeout'] } },
      ),
    )
    const density = prepareDensity(rows, { width: 10, height: 1 }, (ms) => ms / 10, 500)
    expect([...density.failed].reduce((a, b) => a + b)).toBe(1)
    expect([...density.ends].reduce((a, b) => a + b)).toBe(1)
  })
})

describe('timeline URL', () => {
  const round = (query: string) =>
    timelineView.write(timelineView.parse(new URLSearchParams(query)))
  test('round-trips the whole state', () => {
    const query =
      'sort=stragglerDelay&from=1200&to=4000&chunk=64&rows=read&idle=keep&part=3&timeline=table&log=1'
    expect(round(query).toString()).toBe(query)
  })
  test('reads the former value of the sort by straggler delay', () => {
    expect(round('sort=lost').toString()).toBe('sort=stragglerDelay')
  })
  test('omits defaults and ignores invalid values', () => {
    expect(round('sort=up&from=9&to=2&chunk=-1&rows=&part=0').toString()).toBe('')
  })
})

describe('plot keys', () => {
  const { rows } = prepare(
    model(
      [
        [
          [0, 10],
          [0, 20],
        ],
        [[0, 30]],
        [],
      ],
      {},
      2,
    ),
  )
  const [first] = rows
  const [early, late] = first?.track.samples ?? []
  test('move between groups with up and down, and stop at the ends', () => {
    const at = (key: string, from: number) => {
      const step = plotStep(key, false, rows, from, null)
      return step?.do === 'reach' ? step.at : null
    }
    expect(['ArrowDown', 'ArrowUp', 'End', 'Home'].map((key) => at(key, 1))).toEqual([2, 0, 2, 0])
    expect([at('ArrowDown', -1), at('ArrowUp', -1), at('ArrowDown', 2)]).toEqual([0, 2, 2])
    expect([at('PageDown', 0), at('PageUp', 1)]).toEqual([2, 0])
  })
  test('move between samples with left and right, in order of their ends', () => {
    const to = (key: string, at: number, from = early) =>
      plotStep(key, false, rows, at, from ?? null)
    expect(to('ArrowRight', 0)).toEqual({ do: 'reach', at: 0, mark: late })
    expect(to('ArrowRight', 0, late)).toEqual({ do: 'reach', at: 0, mark: late })
    expect(plotStep('ArrowLeft', false, rows, 0, null)).toEqual({ do: 'reach', at: 0, mark: late })
    // The first call has a group without ended samples; the second call has no selection.
    expect(plotStep('ArrowRight', false, rows, 2, null)).toEqual({ do: 'reach', at: 2, mark: null })
    expect(plotStep('ArrowRight', false, rows, -1, null)).toEqual({
      do: 'reach',
      at: 0,
      mark: null,
    })
  })
  test('zoom, pan, open and leave; other keys are ignored', () => {
    const does = (key: string, at = 0, shift = false) => plotStep(key, shift, rows, at, null)?.do
    expect(['+', '-', '0', 'Enter', 'Escape'].map((key) => does(key))).toEqual([
      ...['zoom', 'zoom', 'whole', 'open', 'leave'],
    ])
    expect(does('ArrowLeft', 0, true)).toBe('pan')
    expect([does('Enter', -1), does('Escape', -1), does('j')]).toEqual([
      undefined,
      undefined,
      undefined,
    ])
  })
})

describe('exported image', () => {
  const inks = Object.fromEntries(Object.keys(INK_TOKENS).map((ink) => [ink, '#123456'])) as Inks
  const draw = (groups: Times[], uid = 'q', window: TimeWindow | null = null) => {
    const response = answer(groups, { failed: { index: [0], reason: ['timeout'] } })
    response.groups.uid = response.groups.uid.map((_, i) => `${uid}${i}`)
    const data = prepare(mergeTimeline(null, response))
    const scale = timeScale(data.spanMs, [])
    const words = { title: 'A <title> & more', lines: ['n = 2'] }
    const picture = pictureScene({ data, scale, window, nowMs: null, inOrder: true }, words)
    const painter = svgPainter(picture.width, picture.height, inks, {
      ...{ title: words.title, description: words.lines.join(' ') },
    })
    drawPicture(painter, picture, words)
    return { svg: painter.finish(), ...picture }
  }
  test('has one row per group for any number of groups', () => {
    expect(draw([[[0, 10]], [[0, 30]]]).scene.rowPx).toBe(18)
    const many = draw(Array.from({ length: 2_000 }, (_, i): Times => [[0, i + 1]]))
    expect(many.scene.rowPx).toBe(1)
    expect(many.height).toBeGreaterThan(2_000)
    // One sample failed. The markers of the other samples form one path.
    const marks = many.svg.split('\n').find((line) => line.includes('fill-opacity="0.75"'))
    expect(marks?.match(/M/g)).toHaveLength(1_999)
  })
  test('has more precise times if it is zoomed', () => {
    const groups: Times[] = [[[0, 60_000]], [[0, 50_000]]]
    expect(draw(groups).svg).toMatch(/>20\ss</)
    expect(draw(groups, 'q', { fromMs: 20_000, toMs: 21_000 }).svg).toMatch(/>20\.5\ss</)
  })
  test('escapes texts and replaces characters that XML cannot hold', () => {
    const { svg } = draw([[[0, 10]], [[0, 30]]], 'a<b>&"\u0000\ud800')
    expect(svg).toContain('A &lt;title&gt; &amp; more')
    expect(svg).toContain('a&lt;b&gt;&amp;&quot;\ufffd\ufffd0')
    expect(svg).not.toMatch(/\u0000|NaN|Infinity|undefined/)
  })
})

test('a zoomed timeline has only rows with activity; totals cover all rows', () => {
  const data = prepare(
    model([
      [[0, 10]],
      [[5, 100]],
      [
        [200, 300],
        [200, 900],
      ],
      [[null, 950]],
    ]),
  )
  const between = (fromMs: number, toMs: number) => rowsBetween(data, { fromMs, toMs }, null)
  expect(between(50, 150).rows.map((row) => row.track.no)).toEqual([1])
  expect(between(90, 960).rows.map((row) => row.track.no)).toEqual([1, 2, 3])
  expect(between(50, 150).samples).toBe(data.samples)
  expect(rowsBetween(data, null, null)).toBe(data)
})

test('few groups are readable rows; many are shown at once unless readable rows are selected', () => {
  expect(layoutPlot(12, false, 1_000)).toMatchObject({ rowPx: 18, named: true, fits: true })
  expect(layoutPlot(12, false, 390)).toMatchObject({ named: false })
  expect(layoutPlot(2_000, false, 1_000)).toMatchObject({ rowPx: 0.18, plotPx: 360, fits: true })
  expect(layoutPlot(2_000, true, 1_000)).toMatchObject({ rowPx: 18, fits: false })
})
