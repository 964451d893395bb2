import { describe, expect, test } from 'vitest'
import { noSignals } from '../../server/contract/group-signal.ts'
import type { RunStepDto } from '../../server/contract/runs.ts'
import { justBelow, percentText } from '../format/numbers.ts'
import { heatAt, prepareHeat } from './heat.prepare.ts'
import { meanInterval } from './mean-interval.ts'
import {
  countSteps,
  prepareFan,
  prepareOutcomes,
  prepareShares,
  prepareSources,
  prepareWaits,
  smoothed,
} from './run.prepare.ts'
import { failuresTip } from './run-plots.tsx'
import {
  placeSteps,
  type StepRow,
  stepOfText,
  stepsBetween,
  stepText,
  stepTitle,
  timesOf,
  withPauses,
} from './step-axis.prepare.ts'

const step = (number: number, change: Partial<RunStepDto> = {}): RunStepDto => ({
  step: number,
  bin: null,
  batchId: `b${number}`,
  status: 'completed',
  ...{ others: 0, samples: 8, scored: 8, failed: 0, substituted: 0, groups: 1, retries: 0, n: 8 },
  ...{ mean: 0.5, std: 0.1, min: 0, max: 1, quantiles: [0.1, 0.3, 0.5, 0.7, 0.9] },
  ...{ groupSignals: null, reasons: {}, verdicts: [], meanError: 0.02 },
  ...{ submittedAt: '2026-11-20T10:00:00.000Z' },
  ...{ waitMs: 1_000, stepMs: 60_000, queueMsP50: 1, scoreMsP50: 2, scoreMsP95: 3 },
  ...change,
})

describe('fan chart', () => {
  test('has bands for ended steps, and the mean so far for a running one', () => {
    const running = step(2, { status: 'running', n: null, quantiles: null, mean: 0.7 })
    const { steps } = prepareFan({ steps: [step(1), running], heat: null, startedAt: null }, [])
    expect(steps[0]).toMatchObject({
      ...{ mean: 0.5, median: 0.5, middle: [0.3, 0.7], most: [0.1, 0.9], all: [0, 1] },
      running: null,
    })
    expect(steps[1]).toMatchObject({ mean: null, most: null, all: null, running: 0.7 })
  })

  test('has a gap for a missing step', () => {
    const run = { steps: [step(1), step(2), step(3), step(6)], heat: null, startedAt: null }
    expect(prepareFan(run, []).steps.map((s) => [s.step, s.mean])).toEqual([
      ...[
        [1, 0.5],
        [2, 0.5],
        [3, 0.5],
        [4, null],
        [6, 0.5],
      ],
    ])
  })

  test('scales to all scores only when the range is drawn', () => {
    const run = { steps: [step(1, { min: -50, max: 40 })], heat: null, startedAt: null }
    expect(prepareFan(run, []).valueTicks[0]?.at).toBeGreaterThan(-1)
    expect(prepareFan(run, [], { range: true }).valueTicks[0]?.at).toBeLessThanOrEqual(-50)
  })

  test('overlays the means of other runs by step', () => {
    const other = {
      ...{ name: 'other', startedAt: null },
      steps: [step(2, { mean: 3 }), step(4, { mean: 4 })],
    }
    const own = [step(1), step(3, { mean: 0.7 })]
    const fan = prepareFan({ steps: own, heat: null, startedAt: null }, [other])
    // The line of this run passes step 2, which only the other run has, and ends at its own last step.
    expect(
      fan.steps.map((s) => [s.step, s['run:other'] ?? null, s.mean, s.other !== undefined]),
    ).toEqual([
      [1, null, 0.5, false],
      [2, 3, expect.closeTo(0.6, 12), true],
      [3, null, 0.7, false],
      [4, 4, null, true],
    ])
    expect(fan.points).toBe(2)
    expect(fan.valueTicks.at(-1)?.at).toBeGreaterThanOrEqual(4)
  })

  test('shifts other runs to the start of this run on a time axis', () => {
    const at = (second: number) => ({ submittedAt: `2026-11-20T10:00:0${second}.000Z` })
    const run = {
      ...{ steps: [step(1, at(0)), step(2, at(4))], heat: null },
      startedAt: '2026-11-20T10:00:00.000Z',
    }
    const other = {
      ...{ name: 'other', startedAt: '2026-11-20T10:00:05.000Z' },
      steps: [step(7, { ...at(6), mean: 2 })],
    }
    const timeOf = timesOf(run.steps)
    const { steps } = prepareFan(run, [other], { timeOf })
    const placed = placeSteps(steps, 'time', timeOf)
    const startMs = Date.parse(run.startedAt)
    expect(placed.map(({ x, ...s }) => [x - startMs, s['run:other'] ?? null])).toEqual([
      [0, null],
      [1_000, 2],
      [4_000, null],
    ])
    expect(stepsBetween(placed, startMs + 500, startMs + 5_000)).toEqual({ from: 2, to: 2 })
    expect(stepsBetween(placed, startMs + 500, startMs + 2_000)).toBeNull()
  })

  test('draws bins with the range of step means, without gaps between them', () => {
    const bin = (first: number, steps: number, last = first + 7) =>
      step(first, {
        bin: { last, steps, means: [0, 1], waitsMs: [0, 9_000], failedShares: [0, 0.5] },
      })
    // The first bin begins at step 3 instead of 0, the second bin ends at step 13 instead of 15, and the bin from step
    // 24 is missing.
    const run = { steps: [bin(3, 5, 7), bin(8, 6, 13), bin(16, 8), bin(32, 8)], heat: null }
    const fan = prepareFan({ ...run, startedAt: null }, [])
    expect(fan.perPoint).toBe(8)
    expect(countSteps(run.steps)).toBe(27)
    expect(fan.steps.map((s) => [s.step, s.last, s.means])).toEqual([
      [3, 7, [0, 1]],
      [8, 13, [0, 1]],
      [16, 23, [0, 1]],
      [26, undefined, null],
      [32, 39, [0, 1]],
    ])
  })
})

describe('the fan chart of a reward with few distinct values', () => {
  const heat = { kind: 'values' as const, edges: [0, 1], steps: [] }

  test('has the interval of the mean within the range, and no quantile bands', () => {
    const steps = [
      step(1, { mean: 0.99, meanError: 0.01, groups: 64 }),
      step(2, { mean: 0, meanError: 0, groups: 64 }),
    ]
    const fan = prepareFan({ steps, heat, startedAt: null }, [])
    expect(fan.isFewValued).toBe(true)
    for (const { most, middle, median, interval } of fan.steps) {
      expect([most, middle, median]).toEqual([null, null, null])
      const [low, high] = interval as [number, number]
      expect(low).toBeGreaterThanOrEqual(0)
      expect(high).toBeLessThanOrEqual(1)
      expect(high - low).toBeGreaterThan(0.01)
    }
    expect(
      prepareFan(
        {
          ...{ steps, startedAt: null },
          heat: { ...heat, edges: Array.from({ length: 13 }, (_, i) => i) },
        },
        [],
      ).isFewValued,
    ).toBe(false)
  })

  test('the interval covers the true rate in 93.5 to 96.5 % of 2,000 batches', () => {
    // In a group of eight, each sample takes, with a probability of 0.2, a score that the whole group shares. The
    // scores of the group are then correlated, like those of a real prompt.
    let state = 12_345
    const random = () => {
      state = (state + 0x6d2b79f5) | 0
      let t = Math.imul(state ^ (state >>> 15), 1 | state)
      t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
      return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296
    }
    const samples = 2_048
    for (const rate of [0.02, 0.5, 0.98]) {
      for (const size of [1, 8]) {
        const groups = samples / size
        let covered = 0
        for (let batch = 0; batch < 2_000; batch++) {
          const sums: number[] = []
          for (let group = 0; group < groups; group++) {
            const shared = random() < rate ? 1 : 0
            let sum = 0
            for (let i = 0; i < size; i++) {
              sum += size > 1 && random() < 0.2 ? shared : random() < rate ? 1 : 0
            }
            sums.push(sum)
          }
          const mean = sums.reduce((a, b) => a + b, 0) / samples
          const squares = sums.reduce((all, sum) => all + (sum - mean * size) ** 2, 0)
          const error = Math.sqrt((squares * groups) / (groups - 1)) / samples
          const [low, high] = meanInterval({ mean, error, groups }, { min: 0, max: 1 }) as [
            number,
            number,
          ]
          if (low <= rate && rate <= high) covered++
        }
        expect(covered / 2_000, `rate ${rate}, groups of ${size}`).toBeGreaterThan(0.935)
        expect(covered / 2_000, `rate ${rate}, groups of ${size}`).toBeLessThan(0.965)
      }
    }
  })
})

test('outcomes are shares of ended samples, verdicts first, then failures', () => {
  const verdicts = [
    { verdict: 'equal', n: 4 },
    { verdict: 'no answer', n: 2 },
  ]
  const data = prepareOutcomes([
    step(1, { verdicts, scored: 7, failed: 1 }),
    step(2, { n: null, verdicts: [] }),
  ])
  expect(data?.outcomes.map(({ label }) => label)).toEqual([
    'equal',
    'no answer',
    'Failed',
    'Substituted',
  ])
  expect(data?.steps[0]).toMatchObject({
    'outcome:is equal': 0.5,
    'outcome:is no answer': 0.25,
    'outcome:failed': 0.125,
    'outcome:substituted': 0.125,
  })
  expect(data?.steps[1]).toMatchObject({ n: 0, 'outcome:is equal': null })
  expect(prepareOutcomes([step(1)])).toBeNull()
})

test('smoothing has no bias at the start, and keeps gaps', () => {
  expect(smoothed([1, 1, null, 1], [0.9, 0.9, 0.9, 0.9])).toEqual([
    expect.closeTo(1, 12),
    expect.closeTo(1, 12),
    null,
    expect.closeTo(1, 12),
  ])
  expect(smoothed([0, 1], [0.6, 0.6])).toEqual([0, expect.closeTo(0.4 / 0.64, 12)])
})

describe('shares over steps', () => {
  test('cover groups by class, and ended samples', () => {
    const groupSignals = { ...noSignals(), varied: 5, all_correct: 3, all_incorrect: 2 }
    const shares = prepareShares([
      step(1, { groupSignals, scored: 6, failed: 2 }),
      step(2, { scored: 0, failed: 0 }),
    ])
    expect(shares.signals).toEqual(['all_correct', 'all_incorrect'])
    expect(shares.steps[0]).toMatchObject({ all_correct: 0.3, all_incorrect: 0.2, failed: 0.25 })
    expect(shares.steps[1]).toMatchObject({ all_correct: null, failed: null })
    expect(shares.signalTicks.at(-1)?.at).toBeGreaterThanOrEqual(0.5)
    expect(shares.signalTicks.at(-1)?.at).toBeLessThanOrEqual(1)
    expect(prepareShares([step(1, { scored: 0, failed: 8 })]).failedTicks.at(-1)).toEqual({
      at: 1,
      label: '100 %',
    })
  })
})

test('the tooltip of failed samples says also that none failed', () => {
  const { steps } = prepareShares([step(1, { scored: 8, failed: 0 }), step(2, { failed: 2 })])
  expect(steps.map((each) => failuresTip(each)?.map(({ value }) => value))).toEqual([
    [percentText(0)],
    [percentText(0.2)],
  ])
})

describe('reward waits', () => {
  test('exclude pauses of the job', () => {
    const steps = [1, 2, 3, 4].map((n) => step(n, n === 3 ? { stepMs: 86_400_000 } : {}))
    const waits = prepareWaits(steps)
    expect(waits.steps.map(({ stepMs }) => stepMs)).toEqual([60_000, 60_000, null, 60_000])
    expect(waits).toMatchObject({ isWide: true, zeros: 0 })
  })

  test('have a logarithmic axis, with a count of the steps that it cannot show', () => {
    const steps = [step(1, { waitMs: 0 }), step(2, { waitMs: 40 }), step(3, { waitMs: 5_000 })]
    const waits = prepareWaits(steps, { log: true })
    expect(waits.steps.map(({ waitMs }) => waitMs)).toEqual([null, 40, 5_000])
    expect(waits.zeros).toBe(1)
    expect(waits.ticks.map(({ label }) => label)).toEqual(
      ['10 ms', '100 ms', '1 s', '10 s', '1:00 min'].map((text) => text.replace(' ', '\u00a0')),
    )
    expect(prepareWaits([step(1, { waitMs: 0, stepMs: null })], { log: true }).ticks).not.toEqual(
      [],
    )
  })
})

describe('data sources', () => {
  test('share one value scale', () => {
    const point = (at: number, mean: number) => ({
      ...{ step: at, n: 4, mean, q25: mean - 1, q75: mean + 1, failed: 0 },
    })
    const { sources, valueTicks } = prepareSources({
      sources: [
        { name: 'a', samples: 8, points: [point(1, 0), point(3, 1)] },
        { name: 'b', samples: 4, points: [point(2, 9)] },
      ],
      steps: [step(1), step(2), step(3)],
      heat: null,
    })
    expect(sources[0]?.steps.map(({ step, mean }) => [step, mean])).toEqual([
      [1, 0],
      [2, null],
      [3, 1],
    ])
    expect(valueTicks[0]?.at).toBeLessThanOrEqual(-1)
    expect(valueTicks.at(-1)?.at).toBeGreaterThanOrEqual(10)
    expect(sources[1]?.steps[1]?.middle).toEqual([8, 10])
  })

  test('have no quartile bands if the reward has few distinct values', () => {
    const { sources, hasBands } = prepareSources({
      sources: [
        {
          name: 'a',
          samples: 8,
          points: [{ step: 1, n: 8, mean: 0.5, q25: 0, q75: 1, failed: 0 }],
        },
      ],
      steps: [step(1)],
      heat: { kind: 'values', edges: [0, 1], steps: [{ step: 1, shares: [0.5, 0.5] }] },
    })
    expect(hasBands).toBe(false)
    expect(sources[0]?.steps).toMatchObject([{ step: 1, mean: 0.5, middle: null, n: 8 }])
  })
})

describe('reward heat map', () => {
  const heat = prepareHeat({
    kind: 'values',
    edges: [0, 0.5, 1],
    steps: [
      { step: 3, shares: [0.75, 0, 0.25] },
      { step: 5, shares: [0, 1, 0] },
    ],
  })

  test('has a cell per share, the highest score on top, and no cells for a missing step', () => {
    expect(heat.cells).toHaveLength(3)
    const [least, greatest] = heat.cells
    expect(least).toMatchObject({ x: 0, width: 1 / 3, fill: Math.sqrt(0.75) })
    expect(least?.y).toBeCloseTo(2 / 3)
    expect(greatest?.y).toBeCloseTo(0)
  })

  test('returns the cell under the cursor', () => {
    expect(heatAt(heat, 0.1, 0.9)).toMatchObject({
      step: 3,
      row: '0',
      share: 0.75,
      low: 0,
      high: 0,
    })
    expect(heatAt(heat, 0.9, 0.5)).toMatchObject({
      step: 5,
      row: '0.500',
      share: 1,
      low: 0.5,
      high: 0.5,
    })
    expect(heatAt(heat, 0.5, 0.5)).toBeNull()
  })

  test('gives a score on the edge of two bins to the upper one', () => {
    const bins = prepareHeat({
      ...{ kind: 'bins', edges: [0, 0.5, 1], steps: [{ step: 3, shares: [0.5, 0.5] }] },
    })
    expect(heatAt(bins, 0.5, 0.9)).toMatchObject({ low: 0, high: justBelow(0.5) })
    expect(heatAt(bins, 0.5, 0.1)).toMatchObject({ low: 0.5, high: 1 })
  })
})

describe('the axis of step charts', () => {
  const at = (step: number, minute: number) => ({
    ...{ step, submittedAt: new Date(minute * 60_000).toISOString() },
  })

  test('interpolates the time of a step between two points, and has none outside', () => {
    const timeOf = timesOf([at(1, 0), at(2, 1), at(10, 9)])
    expect([0, 1, 2, 6, 10, 11].map(timeOf)).toEqual([null, 0, 60_000, 300_000, 540_000, null])
  })

  test('has the exact times of steps that were loaded after the bins', () => {
    const timeOf = timesOf([at(0, 0), at(16, 100), at(5, 1), at(6, 2), at(16, 101)])
    expect([0, 5, 6, 16].map(timeOf)).toEqual([0, 60_000, 120_000, 101 * 60_000])
  })

  test('sorts steps by time, so that a step that was submitted again is later', () => {
    const steps = [at(1, 0), at(2, 9), at(3, 2)]
    expect(placeSteps(steps, 'time', timesOf(steps)).map(({ step }) => step)).toEqual([1, 3, 2])
    expect(placeSteps(steps, 'step', () => null).map(({ x }) => x)).toEqual([1, 2, 3])
  })

  test('has a gap on a time axis where the run paused', () => {
    const steps = [at(1, 0), at(2, 1), at(3, 2), at(4, 100)]
    const rows = withPauses(placeSteps(steps, 'time', timesOf(steps)))
    expect(rows.map((row: StepRow) => row.isPause ?? row.step)).toEqual([1, 2, 3, true, 4])
    expect(stepsBetween(rows, 60_000, 60 * 60_000)).toEqual({ from: 2, to: 3 })
  })

  test('names bins by their range', () => {
    expect(stepText({ step: 4_992, last: 5_007 })).toBe('4,992–5,007')
    expect(stepOfText('4,992–5,007')).toEqual({ step: 4_992, last: 5_007 })
    expect(stepOfText('12')).toEqual({ step: 12, last: 12 })
    expect(stepTitle({ step: 12 }, null)).toBe('Step 12')
    expect(stepTitle({ step: 12, last: 15 }, null)).toBe('Steps 12–15')
    expect(stepTitle({ step: 12 }, 0)).toMatch(/^Step 12, 19\d\d-/)
  })
})
