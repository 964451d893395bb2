import { describe, expect, test } from 'vitest'
import { noSignals } from '../contract/group-signal.ts'
import type { FigureRow } from '../store/sql/monitor-batches.ts'
import { readMonitors, varianceShares, type Watched } from './definitions.ts'

const figures = (change: Partial<FigureRow> = {}): FigureRow => ({
  ...{ batch_id: 1, samples: 100, failed: 0, mean: 0.5, std: 0.5, min: 0, max: 1 },
  ...{ bin_values: [0, 1], bin_counts: [50, 50], components: null },
  ...{ length_n: 100, length_unit: 'tokens', length_correlation: 0.25 },
  ...{ duplicates: 5, duplicates_of: 100, group_std: 0.4, group_std_of: 12 },
  ...change,
})
const watched = (change: Partial<Watched> = {}): Watched => ({
  ...{ figures: figures(), signals: { ...noSignals(), varied: 12 } },
  ...{ reward: { kind: 'rule' as const }, window: [] },
  reference: null,
  ...change,
})
const past = (std: number | null, min = 0, max = 1, mean = 0.5) => ({
  ...{ mean, min, max, group_std: std, group_std_of: 12 },
})

describe('the values of the monitors', () => {
  test('shares leave out empty groups, and have no value if every group has a single sample', () => {
    const signals = {
      ...noSignals(),
      varied: 4,
      all_incorrect: 6,
      all_correct: 2,
      single_sample: 3,
      empty: 5,
    }
    const read = readMonitors(watched({ signals, figures: figures({ failed: 7 }) }))
    expect(read.all_incorrect).toEqual({ value: 6 / 15, n: 15, detail: null })
    expect(read.no_signal).toEqual({ value: 11 / 15, n: 15, detail: null })
    expect(read.failures).toEqual({ value: 0.07, n: 100, detail: null })
    expect(read.duplicates.value).toBe(0.05)
    // If every group has a single sample, the monitors below have no value, however many samples failed.
    for (const all_failed of [0, 1, 40]) {
      const alone = readMonitors(
        watched({
          signals: { ...noSignals(), single_sample: 40 - all_failed, all_failed, empty: 2 },
          figures: figures({ samples: 40, failed: all_failed }),
        }),
      )
      expect(alone.no_signal.value).toBeNull()
      expect(alone.all_incorrect.value).toBeNull()
    }
    const failed = readMonitors(watched({ signals: { ...noSignals(), all_failed: 40 } }))
    expect(failed.no_signal.value).toBe(1)
  })

  test('too few samples give no value', () => {
    const few = figures({ samples: 31, length_n: 31, duplicates_of: 31, group_std_of: 7 })
    const signals = { ...noSignals(), all_incorrect: 7 }
    const read = readMonitors(
      watched({
        figures: { ...few, bin_counts: [15, 16] },
        signals,
        window: [past(1), past(1)],
      }),
    )
    for (const reading of Object.values(read)) expect(reading.value).toBeNull()
  })

  test('a reward drop is measured by the variation between successive batches', () => {
    const means = [0.6, 0.62, 0.58, 0.61, 0.59, 0.6, 0.63, 0.57, 0.6, 0.6]
    const rows = (values: number[]) => values.toReversed().map((mean) => past(0.4, 0, 1, mean))
    const read = (mean: number, window = rows(means)) =>
      readMonitors(watched({ window, figures: figures({ mean }) })).reward_drop
    // The differences have a median of 0.01 and a median absolute deviation of 0.02.
    const deviation = (1.4826 * 0.02) / Math.SQRT2
    expect(read(0.34).value).toBeCloseTo(0.26 / deviation, 9)
    expect(read(0.34)).toMatchObject({ n: 100, detail: 'mean 0.34, usually 0.6' })
    expect(read(0.7).value).toBeCloseTo(-0.1 / deviation, 9)
    expect(read(0.34, rows(means.slice(1))).value).toBeNull()
    // If all means are equal, the deviation is set to 1 % of the score range, so a small fall does not count as a drop.
    const flat = rows(Array(20).fill(1))
    expect(read(0.98, flat).value).toBeCloseTo(2, 9)
    expect(read(1, flat).value).toBe(0)
    // A rising reward is compared with its newest batches, and its trend does not count as variation.
    const rising = rows(Array.from({ length: 20 }, (_, i) => 0.3 + 0.02 * i))
    expect(read(0.5, rising).value).toBeCloseTo(0.14 / 0.01, 9)
  })

  test('a variance collapse is compared with the median before it, for as long as it lasts', () => {
    const window = [0.8, 0.1, 1, 0.9, 0.7].map((std) => past(std))
    expect(readMonitors(watched({ window })).variance_collapse.value).toBeCloseTo(0.5, 12)
    expect(readMonitors(watched({ window: window.slice(1) })).variance_collapse.value).toBeNull()
    const ongoing = watched({ window: Array(20).fill(past(0.4)), reference: 1.6 })
    expect(readMonitors(ongoing).variance_collapse.value).toBeCloseTo(0.25, 12)
    const flat = watched({ window: Array(20).fill(past(0)) })
    expect(readMonitors(flat).variance_collapse.value).toBeNull()
  })

  test('the score range includes the previous batches', () => {
    const window = [past(null, -1, 2)]
    const ends = figures({ bin_values: [-1, 0, 1.98, 2], bin_counts: [10, 40, 20, 30], min: -1 })
    const read = readMonitors(watched({ figures: { ...ends, max: 2 }, window }))
    // Scores within 0.03 (1 % of the range) of an end count: the ceiling includes 1.98, the floor does not include 0.
    expect(read.ceiling.value).toBe(0.5)
    expect(read.floor.value).toBe(0.1)
    const middle = figures({ bin_values: [0.5], bin_counts: [100], min: 0.5, max: 0.5 })
    expect(readMonitors(watched({ figures: middle, window })).ceiling.value).toBe(0)
  })

  test('a single value is the ceiling when it is above 0, otherwise the floor', () => {
    const only = (score: number) =>
      readMonitors(
        watched({
          figures: figures({ bin_values: [score], bin_counts: [64], min: score, max: score }),
        }),
      )
    expect([only(1).ceiling.value, only(1).floor.value]).toEqual([1, 0])
    expect([only(0).ceiling.value, only(0).floor.value]).toEqual([0, 1])
  })

  test('scores count as evenly spread within a bin', () => {
    const bins = figures({ bin_values: [], bin_counts: [...Array(127).fill(0), 128], min: 0 })
    // The last of 128 bins is 0.78 % of the range, so the whole bin is within 1 % of the top.
    expect(readMonitors(watched({ figures: bins })).ceiling.value).toBe(1)
    const wide = watched({ figures: bins, window: [past(null, 0, 1.005)] })
    // The ceiling starts at 1.005 - 0.01005 = 0.99495, so it covers the top 0.00505 of a bin that is 0.0078125 wide.
    expect(readMonitors(wide).ceiling.value).toBeCloseTo(0.00505 / 0.0078125, 9)
  })

  test('a score range that overflows a double gives no value', () => {
    const far = figures({ min: -1.7e308, max: 1.7e308, bin_values: [], bin_counts: [50, 50] })
    expect(readMonitors(watched({ figures: far })).ceiling.value).toBeNull()
  })

  test('equal scores of a reward model have no spread; equal scores of a rule have no value', () => {
    const flat = figures({ min: 1, max: 1, std: 0, bin_values: [1], bin_counts: [64] })
    const byModel = { kind: 'model' as const }
    const read = (change: Partial<Watched>) => readMonitors(watched(change)).no_spread
    expect(read({ figures: flat, reward: byModel })).toEqual({
      ...{ value: 0, n: 64, detail: 'every score is 1' },
    })
    expect(read({ figures: figures(), reward: byModel }).value).toBe(1)
    expect(read({ figures: flat }).value).toBeNull()
    const few = { ...flat, bin_counts: [31] }
    expect(read({ figures: few, reward: byModel }).value).toBeNull()
    const part = (name: string, min: number, max: number) => ({
      ...{ name, n: 64, mean: 0, std: max - min, min, max },
    })
    const components = [part('', 0, 2), part('right', 0, 1), part('rm', 1, 1)]
    const parts = [
      { name: 'right', weight: 1, reward: { kind: 'rule' } as never },
      { name: 'rm', weight: 1, reward: byModel as never },
    ]
    expect(
      read({ figures: figures({ components }), reward: { kind: 'combine', components: parts } }),
    ).toMatchObject({ value: 0, n: 64, detail: 'every score of rm is 1' })
  })

  test('the shares of a weighted sum’s variance add up to 1', () => {
    // 1 x a + 2 x b over four samples: a = 0, 0, 1, 1; b = 1, 2, 1, 4.
    const a = [0, 0, 1, 1]
    const b = [1, 2, 1, 4]
    const sum = a.map((x, at) => x + 2 * (b[at] as number))
    const stats = (name: string, values: number[]) => ({
      ...{ name, n: 40, mean: 0, min: 0, max: 0 },
      ...{
        std: deviation(values),
        corr: covariance(values, sum) / deviation(values) / deviation(sum),
      },
    })
    const components = [stats('', sum), stats('a', a), stats('b', b)]
    const parts = [
      { name: 'a', weight: 1, reward: {} as never },
      { name: 'b', weight: 2, reward: {} as never },
    ]
    const of = {
      figures: figures({ components }),
      reward: { kind: 'combine' as const, components: parts },
    }
    const shares = varianceShares(of)
    expect(shares.map(({ share }) => share).reduce((x, y) => x + y)).toBeCloseTo(1, 12)
    // Computed by hand: var(sum) = 29/3, cov(a, sum) = 1, cov(b, sum) = 13/3. The shares are weight × cov / var(sum).
    expect(shares.map(({ share }) => share)).toEqual([
      expect.closeTo(3 / 29, 12),
      expect.closeTo(26 / 29, 12),
    ])
    expect(readMonitors(watched(of)).component_dominance).toMatchObject({
      value: expect.closeTo(26 / 29, 12),
      detail: 'b',
    })
    const old = components.map(({ corr: _, ...rest }) => rest)
    expect(varianceShares({ ...of, figures: figures({ components: old }) })).toEqual([])
  })

  test('the shares of GDPO keys are multiplied by their weights', () => {
    const part = (name: string, corr: number) => ({
      ...{ name, n: 40, mean: 0, min: 0, max: 0, std: 1, corr },
    })
    const components = [part('', 1), part('a', 0.5), part('b', 0.5)]
    const shares = varianceShares({
      figures: figures({ components }),
      reward: { gdpo: { keys: ['a', 'b'], weights: [1, 3] } },
    })
    expect(shares.map(({ name, share }) => [name, share])).toEqual([
      ['a', 0.5],
      ['b', 1.5],
    ])
  })
})

function covariance(x: number[], y: number[]): number {
  const [mx, my] = [x, y].map((v) => v.reduce((a, b) => a + b) / v.length) as [number, number]
  return x.reduce((s, one, at) => s + (one - mx) * ((y[at] as number) - my), 0) / (x.length - 1)
}
function deviation(x: number[]): number {
  return Math.sqrt(covariance(x, x))
}
