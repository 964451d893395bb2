import { describe, expect, test } from 'vitest'
import { MIN_SHIFT_STEPS } from '../../contract/changes.ts'
import { inPortions } from '../../queries/in-portions.ts'
import { type Cell, decompose, type Part } from './decompose.ts'
import { findShifts } from './find-shift.ts'

function numbers(seed: number): () => number {
  let state = seed
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return state / 4_294_967_296
  }
}

/**
 * Random groups of eight 0/1 scores. Each group belongs to one class, and the class's rate is the probability of a
 * score of 1.
 */
function groups(
  count: number,
  classes: readonly [key: string, share: number, rate: number][],
  random: () => number,
): Cell[] {
  return Array.from({ length: count }, (_, unit) => {
    const drawn = random()
    let below = 0
    const [key, , rate] =
      classes.find(([, share]) => {
        below += share
        return drawn < below
      }) ?? (classes.at(-1) as [string, number, number])
    let sum = 0
    for (let i = 0; i < 8; i++) sum += random() < rate ? 1 : 0
    return { unit, key, n: 8, sum }
  })
}

const meanOf = (cells: readonly Cell[]) =>
  cells.reduce((sum, cell) => sum + cell.sum, 0) / cells.reduce((n, cell) => n + cell.n, 0)

describe('the parts of a change', () => {
  test('add up to the change, also with classes on one side only', async () => {
    const random = numbers(7)
    for (let round = 0; round < 50; round++) {
      const before = groups(
        1 + Math.floor(random() * 40),
        [
          ['a', 0.5, random()],
          ['b', 0.3, random()],
          ['old', 0.2, random()],
        ],
        random,
      )
      const after = groups(
        1 + Math.floor(random() * 40),
        [
          ['a', 0.2, random()],
          ['b', 0.2, random()],
          ['new', 0.6, random()],
        ],
        random,
      )
      const { parts, mix, change } = await inPortions(decompose(before, after))
      const exact = meanOf(after) - meanOf(before)
      expect(Math.abs(change.value - exact)).toBeLessThan(1e-12)
      const sum = (of: (part: (typeof parts)[number]) => number) =>
        parts.reduce((all, part) => all + of(part), 0)
      expect(Math.abs(sum(({ total }) => total.value) - exact)).toBeLessThan(1e-12)
      expect(Math.abs(sum((part) => part.mix.value) - mix.value)).toBeLessThan(1e-12)
      for (const part of parts) {
        expect(part.total.value).toBeCloseTo(part.mix.value + part.within.value, 12)
      }
    }
  })

  test('a class of low scores that grows counts as a loss', async () => {
    const side = (none: number, right: number): Cell[] => [
      { unit: 0, key: 'no answer', n: none, sum: 0 },
      { unit: 0, key: 'equal', n: right, sum: right },
      { unit: 0, key: 'different', n: 100 - none - right, sum: 0 },
    ]
    const { parts, change } = await inPortions(decompose(side(3, 27), side(65, 19)))
    const of = (key: string) => parts.find((part) => part.key === key)?.total.value as number
    expect(change.value).toBeCloseTo(-0.08, 12)
    expect(of('no answer')).toBeCloseTo(-0.62 * 0.23, 12)
    expect(of('equal')).toBeCloseTo(-0.08 * 0.77, 12)
    expect(of('different')).toBeCloseTo(0.54 * 0.23, 12)
  })

  test('if only the shares change, every `within` part is 0', async () => {
    const side = (easy: number): Cell[] => [
      { unit: 0, key: 'easy', n: easy, sum: 0.8 * easy },
      { unit: 1, key: 'hard', n: 100 - easy, sum: 0.2 * (100 - easy) },
    ]
    const { parts, mix, change } = await inPortions(decompose(side(50), side(10)))
    expect(mix.value).toBeCloseTo(change.value, 12)
    for (const { within } of parts) expect(Math.abs(within.value)).toBeLessThan(1e-12)
  })

  test('the interval covers the true part in about 95 % of the cases', async () => {
    const random = numbers(11)
    const [before, after] = [
      [
        ['a', 0.5, 0.7],
        ['b', 0.5, 0.3],
      ],
      [
        ['a', 0.3, 0.6],
        ['b', 0.7, 0.3],
      ],
    ] as const satisfies [string, number, number][][]
    const truth = -0.2 * (0.65 - (0.5 + 0.39) / 2) + 0.4 * -0.1
    let covered = 0
    for (let trial = 0; trial < 300; trial++) {
      const { parts } = await inPortions(
        decompose(groups(120, before, random), groups(120, after, random)),
      )
      const { value, standardError } = (parts.find(({ key }) => key === 'a') as Part).total
      if (standardError === null) throw new Error('no interval')
      if (Math.abs(value - truth) < 1.96 * standardError) covered++
    }
    expect(covered / 300).toBeGreaterThan(0.91)
    expect(covered / 300).toBeLessThan(0.985)
  })

  test('one unit has no interval', async () => {
    const { change } = await inPortions(
      decompose([{ unit: 0, key: 'a', n: 4, sum: 1 }], [{ unit: 0, key: 'a', n: 4, sum: 3 }]),
    )
    expect(change).toEqual({ value: 0.5, standardError: null })
  })
})

describe('sudden changes', () => {
  const run = (seed: number, steps: number, shift: (step: number) => number) => {
    const random = numbers(seed)
    const noise = () => random() + random() + random() + random() - 2
    return Array.from({ length: steps }, (_, step) => ({
      step,
      mean: 0.02 * noise() + shift(step),
    }))
  }

  test('are found at their steps, also on a slope', () => {
    expect(findShifts(run(3, 60, (step) => (step >= 31 ? 0.4 : 0.5)))).toEqual([31])
    const dip = run(4, 60, (step) => 0.005 * step + (step >= 20 && step < 22 ? -0.2 : 0))
    expect(findShifts(dip).toSorted()).toEqual([20, 22])
  })

  test('are ordered by size, and only the eight largest are returned', () => {
    const levels = [0, 2, 1, 6.5, 5, 9, 3, 8, 1, 3.5, 10]
    const found = findShifts(run(5, 110, (step) => levels[Math.floor(step / 10)] as number))
    expect(found).toEqual([80, 100, 60, 30, 70, 50, 90, 10])
  })

  test('are found in at most 5 % of steady runs', () => {
    const found = Array.from({ length: 60 }, (_, seed) =>
      findShifts(run(seed, 100, (step) => 0.004 * step)),
    )
    expect(found.filter((at) => at.length > 0).length).toBeLessThanOrEqual(3)
    expect(findShifts(run(1, 30, () => 0).map(({ step }) => ({ step, mean: 0.5 })))).toEqual([])
    expect(findShifts(run(1, 5, (step) => step))).toEqual([])
  })

  test('are found from the minimum number of steps on', () => {
    const steps = (count: number) => run(1, count, (step) => (step >= 6 ? 1 : 0))
    expect(findShifts(steps(MIN_SHIFT_STEPS))).toEqual([6])
    expect(findShifts(steps(MIN_SHIFT_STEPS - 1))).toEqual([])
  })
})
