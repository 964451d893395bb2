import { existsSync, readFileSync } from 'node:fs'
import { describe, expect, it, test } from 'vitest'
import { type Comparison, compareScores } from './compare-scores.ts'
import { cohensKappa } from './correlation.ts'
import { type PairCounts, pairCounts, pairsBySorting, tauB } from './kendall.ts'
import { FAILED, PENDING, type SampleColumns, SCORED, SUBSTITUTED } from './match-samples.ts'
import { descendingOrder } from './ranks.ts'
import { stepDeltas } from './step-delta.ts'

/** The expected values come from golden/make_golden.py, an independent implementation of the definitions. */

interface Golden {
  name: string
  first?: number[]
  second?: number[]
  group?: number[]
  n: number
  mean: [number, number]
  std: [number, number]
  pearson: number | null
  spearman: number | null
  kappa: number | null
  tau: number | null
  tauGroups: number
  comparable: number
  reversed: number
  tiedFirst: number
  tiedSecond: number
  tiedBoth: number
  bestChanged: number
  signs: number[][]
  signFlipped: number
}

const golden: Golden[] = JSON.parse(
  readFileSync(new URL('./golden/golden.json', import.meta.url), 'utf8'),
)
const DATA = new URL('../../../../shared/data/', import.meta.url)

function run<T>(work: Generator<void, T>): T {
  for (;;) {
    const step = work.next()
    if (step.done) return step.value
  }
}

function columns(
  score: readonly (number | null)[],
  group: readonly number[],
  fields: Partial<SampleColumns> = {},
): SampleColumns {
  return {
    state: Uint8Array.from(score, (one) => (one === null ? FAILED : SCORED)),
    score: Float64Array.from(score, (one) => one ?? Number.NaN),
    group: Int32Array.from(group),
    source: new Int32Array(score.length),
    sources: ['s'],
    uids: Array.from({ length: Math.max(-1, ...group) + 1 }, (_, no) => `u${no}`),
    response: null,
    ...fields,
  }
}

const compare = (first: number[], second: number[], group: number[]) =>
  run(compareScores(columns(first, group), columns(second, group), true))

function expectGolden({ summary }: Comparison, want: Golden): void {
  const close = (got: number | null, wanted: number | null, what: string) => {
    if (wanted === null) expect(got, what).toBeNull()
    else expect(got, what).toBeCloseTo(wanted, 10)
  }
  const { groups, scores } = summary
  expect(summary.n).toBe(want.n)
  close(scores.first.mean, want.mean[0], 'mean of the first')
  close(scores.second.mean, want.mean[1], 'mean of the second')
  close(scores.first.std, want.std[0], 'deviation of the first')
  close(scores.second.std, want.std[1], 'deviation of the second')
  close(summary.pearson, want.pearson, 'Pearson')
  close(summary.spearman, want.spearman, 'Spearman')
  close(groups.tau, want.tau, 'τ')
  for (const key of ['tauGroups', 'comparable', 'reversed', 'tiedFirst', 'tiedSecond'] as const)
    expect(groups[key], key).toBe(want[key])
  for (const key of ['tiedBoth', 'bestChanged', 'signFlipped'] as const)
    expect(groups[key], key).toBe(want[key])
  expect(groups.signs).toEqual(want.signs)
  if (summary.classes !== null) close(summary.classes.kappa, want.kappa, 'κ')
}

function csv(path: string): Record<string, string>[] {
  const [head = '', ...lines] = readFileSync(new URL(path, DATA), 'utf8').trim().split(/\r?\n/)
  const names = head.split(',')
  return lines.map((line) =>
    Object.fromEntries(line.split(',').map((cell, at) => [names[at], cell])),
  )
}

describe('every figure equals the independently computed one', () => {
  for (const want of golden.filter(({ first }) => first !== undefined)) {
    test(want.name, () => {
      expectGolden(
        compare(want.first as number[], want.second as number[], want.group as number[]),
        want,
      )
    })
  }

  test.skipIf(!existsSync(DATA)).each([
    ['qwen-math-rm8', 'verl_math_reward_vs_answer', 'rm_score', 'rule against reward model'],
    ['gsm8k-groups8', 'verl_gsm8k_strict', 'verl_gsm8k_flexible', 'strict against flexible'],
  ])('real groups: %s, %s against %s', (folder, first, second, what) => {
    const rows = csv(`${folder}/verdicts.csv`)
    const of = (column: string) => rows.map((row) => Number(row[column]))
    const want = golden.find(({ name }) => name === `${folder}: ${what}`) as Golden
    expectGolden(compare(of(first), of(second), of('idx')), want)
  })
})

describe('Kendall', () => {
  const numbers = (seed: number, n: number, values: number) => {
    let state = seed
    return Float64Array.from({ length: n }, () => {
      state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
      return state % values
    })
  }
  it('counts the same pairs by sorting and one by one', () => {
    for (const [n, values] of [
      [2, 2],
      [13, 3],
      [64, 5],
      [64, 1_000],
    ] as const) {
      const a = numbers(n + values, n, values)
      const b = numbers(n * values, n, values)
      expect(run(pairsBySorting(a, b))).toEqual(run(pairCounts(a, b)))
    }
  })
  it('handles 100,000 members, in the same or reverse order', () => {
    const n = 100_000
    const up = Float64Array.from({ length: n }, (_, at) => at)
    const down = up.map((at) => -at)
    expect(tauB(run(pairCounts(up, down)))).toBe(-1)
    expect(run(pairCounts(up, up))).toEqual({
      ...{ pairs: (n * (n - 1)) / 2, concordant: (n * (n - 1)) / 2, discordant: 0 },
      ...{ tiedFirst: 0, tiedSecond: 0, tiedBoth: 0 },
    } satisfies PairCounts)
  })
  it('is undefined where one reward gives equal scores', () => {
    expect(tauB(run(pairCounts(Float64Array.of(1, 1), Float64Array.of(1, 2))))).toBeNull()
  })
})

describe('the compared samples', () => {
  it('excludes and counts failed, substituted and pending samples', () => {
    const group = [0, 0, 0, 0, 0, 0, 0, 0]
    const first = columns([1, null, 1, null, 1, 1, 0, 1], group)
    const second = columns([1, 1, null, null, 0.5, 1, 1, 1], group)
    second.state[4] = SUBSTITUTED
    first.state[5] = PENDING
    const { summary, matched } = run(compareScores(first, second, true))
    expect(summary.n).toBe(3)
    expect(Array.from(matched.firstIndex)).toEqual([0, 6, 7])
    expect(new Map(summary.unmatched.map(({ reason, samples }) => [reason, samples]))).toEqual(
      new Map([
        ['failed_first', 1],
        ['failed_second', 1],
        ['failed_both', 1],
        ['substituted', 1],
        ['pending', 1],
      ]),
    )
  })

  it('joins batches in different order by uid and response, each sample once', () => {
    const one = columns([1, 2, 3, 4, 5], [0, 0, 0, 1, 2], {
      response: Float64Array.of(10, 10, 11, 10, 12),
    })
    const other = columns([30, 20, 10, 99, 40], [0, 0, 0, 0, 1], {
      uids: ['u0', 'u1', 'u9'],
      response: Float64Array.of(11, 10, 10, 77, Number.NaN),
    })
    const { matched, summary } = run(compareScores(one, other, false))
    expect(Array.from(matched.first)).toEqual([1, 2, 3])
    expect(Array.from(matched.second)).toEqual([20, 10, 30])
    // `other_response`: one response only in the first batch, one only in the second, and one whose text is not kept.
    // `only_first`: the sample of u2.
    expect(new Map(summary.unmatched.map(({ reason, samples }) => [reason, samples]))).toEqual(
      new Map([
        ['other_response', 3],
        ['only_first', 1],
      ]),
    )
    expect(summary.prompts).toMatchObject({ n: 2, first: 3, second: (159 / 4 + 40) / 2 })
  })

  it('counts groups whose scores became equal, and takes the sign of a tiny advantage as 0', () => {
    const group = [0, 0, 0, 1, 1, 1]
    const { summary } = compare([0.1, 0.2, 0.3, 1, 1, 1], [1, 1, 1, 0.1, 0.2, 0.3], group)
    expect(summary.groups).toMatchObject({ noSignalFirst: 1, noSignalSecond: 1, noSignalBoth: 0 })
    expect(summary.groups.signs).toEqual([
      [0, 1, 0],
      [1, 2, 1],
      [0, 1, 0],
    ])
    expect(summary.groups).toMatchObject({ tau: null, tauGroups: 0, signFlipped: 0 })
  })

  it('lists few scores, bins many, and keeps the distribution functions exact', () => {
    const first = Array.from({ length: 400 }, (_, at) => at % 2)
    const second = Array.from({ length: 400 }, (_, at) => (at * 7919) % 400)
    const group = first.map((_, at) => at >> 2)
    const { summary } = compare(first, second, group)
    expect(summary.joint?.first).toEqual({ kind: 'values', values: [0, 1] })
    expect(summary.joint?.second.kind).toBe('bins')
    expect(summary.joint?.cells.reduce((n, [, , samples]) => n + samples, 0)).toBe(400)
    expect(summary.classes).toBeNull()
    for (const [at, value] of summary.cdf.values.entries()) {
      const share = second.filter((one) => one <= value).length / 400
      expect(summary.cdf.second[at]).toBe(share)
    }
    expect(summary.delta.score.distribution.kind).toBe('histogram')
    expect(summary.delta.score.distribution.bins.reduce((n, { count }) => n + count, 0)).toBe(400)
  })

  it('returns nulls for no samples', () => {
    const { summary } = run(compareScores(columns([null], [0]), columns([1], [0]), true))
    expect(summary).toMatchObject({ n: 0, pearson: null, spearman: null, joint: null })
    expect(summary.groups).toMatchObject({ n: 0, tau: null })
  })
})

it('Cohen’s κ of 70 pairs of ratings: 45 are equal, 35 would be by chance', () => {
  expect(
    cohensKappa([
      [25, 10],
      [15, 20],
    ]),
  ).toBeCloseTo((45 / 70 - 0.5) / 0.5, 12)
})

it('sorts in descending order and keeps the order of equal keys', () => {
  expect(Array.from(run(descendingOrder(Float64Array.of(1, 3, 2, 3, -1))))).toEqual([1, 3, 2, 0, 4])
})

it('the difference of two runs at a step has an interval from both standard errors', () => {
  const at = (mean: number, meanError: number | null) => ({
    ...{ step: 4, batchId: 'b1', n: 100, mean, meanError },
  })
  const [delta] = stepDeltas([at(0.5, 0.03)], [at(0.6, 0.04)])
  const half = 1.959964 * 0.05
  expect(delta?.delta).toBeCloseTo(0.1, 12)
  expect(delta?.low).toBeCloseTo(0.1 - half, 12)
  expect(delta?.high).toBeCloseTo(0.1 + half, 12)
  expect(stepDeltas([at(0.5, 0.03)], [at(1, null)])).toEqual([])
})
