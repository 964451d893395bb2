import { describe, expect, it } from 'vitest'
import { MAX_VISITS } from './contract/prompts.ts'
import { classOf, figuresOf, mergeVisits, type Visit } from './prompt-visits.ts'
import { seededRandom } from './router/policies/seeded-random.ts'

const GROUP = 8

function visits(...passes: number[]): Visit[] {
  return passes.map((passed, at) => visit(at, passed))
}

function visit(step: number, passed: number, n = GROUP): Visit {
  const rate = passed / n
  return {
    ...{ step, batchId: 100 + step, group: 0, scored: n, passed, mean: rate },
    std: n < 2 ? 0 : Math.sqrt((n * rate * (1 - rate)) / (n - 1)),
  }
}

function drawn(rates: readonly number[], random: () => number): Visit[] {
  return rates.map((rate, at) => {
    let passed = 0
    for (let i = 0; i < GROUP; i++) if (random() < rate) passed++
    return visit(at, passed)
  })
}

describe('a class', () => {
  it('follows from the passes', () => {
    expect(classOf(visits(0, 0, 0))).toBe('unsolved')
    expect(classOf(visits(0, 3, 8, 8))).toBe('solved')
    expect(classOf(visits(8))).toBe('solved')
    expect(classOf(visits(3, 4, 5, 4))).toBe('mixed')
    expect(classOf(visits(1, 0, 1, 7, 7, 6))).toBe('learning')
    expect(classOf(visits(7, 8, 7, 1, 0))).toBe('regressed')
    expect(classOf(visits(8, 8, 8, 0))).toBe('regressed')
    // The prompt was learned and later forgotten. Its class follows the later change.
    expect(classOf(visits(0, 1, 0, 8, 8, 7, 8, 0, 1, 0))).toBe('regressed')
    expect(classOf(visits(0, 0, 0, 0, 0, 0, 8, 8, 8, 8, 8, 8, 1, 1))).toBe('regressed')
    expect(classOf(visits(...Array(60).fill(1), ...Array(70).fill(6)))).toBe('mixed')
    expect(classOf(visits(8, 0, 8, 0, 8, 0, 8, 0))).toBe('flapping')
    expect(classOf([visit(0, 0, 2), visit(1, 2, 2), visit(2, 0, 2)])).toBe('never_varied')
    // A single sample cannot vary.
    expect(classOf([visit(0, 0, 1), visit(1, 1, 1), visit(2, 0, 1)])).toBe('mixed')
  })

  it('of a reward model follows from the means', () => {
    const models = (...means: number[]) =>
      means.map((mean, at): Visit => ({ ...visit(at, 0), passed: null, mean, std: 0.5 }))
    const small = models(-1, -1.1, -0.9, 1, 1.2, 0.9).map((one) => ({
      ...{ ...one, mean: one.mean / 100, std: one.std / 100 },
    }))
    expect(classOf(small)).toBe('learning')
    expect(classOf(models(-0.2, 0.1, 0, 0.1))).toBe('mixed')
    expect(classOf(models(-1, -1.1, -0.9, 1, 1.2, 0.9))).toBe('learning')
    expect(classOf(models(1, 1.1, 0.9, -1, -1.1))).toBe('regressed')
    expect(classOf(models(1, -1, 1.1, -0.9, 1, -1, 1, -1))).toBe('flapping')
    expect(classOf(models(1, 1, 1).map((one) => ({ ...one, std: 0 })))).toBe('never_varied')
  })

  it('finds 50 forgotten prompts among 1,000, and no other', () => {
    const random = seededRandom(7)
    let found = 0
    const others: Record<string, number> = {}
    for (let at = 0; at < 1_000; at++) {
      const rate = 0.05 + 0.9 * random()
      const isForgotten = at % 20 === 0
      // A prompt that was never learned cannot be forgotten.
      const before = isForgotten ? 0.6 + 0.35 * random() : rate
      const rates = Array.from({ length: 20 }, (_, i) => (isForgotten && i >= 16 ? 0.05 : before))
      const name = classOf(drawn(rates, random))
      if (isForgotten && name === 'regressed') found++
      else if (!isForgotten) others[name] = (others[name] ?? 0) + 1
    }
    expect(found).toBe(50)
    expect(others.regressed ?? 0).toBe(0)
    expect(others.learning ?? 0).toBe(0)
    expect(others.flapping ?? 0).toBe(0)
  })
})

describe('visits', () => {
  it('are kept in order, and replace those of the same group', () => {
    const stored = visits(1, 2, 3)
    const again = { ...visit(1, 8), batchId: 101 }
    const merged = mergeVisits(stored, [visit(5, 4), again])
    expect(merged.map(({ step, passed }) => [step, passed])).toEqual([
      [0, 1],
      [1, 8],
      [2, 3],
      [5, 4],
    ])
    expect(mergeVisits(merged, [again, visit(5, 4)])).toEqual(merged)
    const sibling = { ...again, group: 1 }
    expect(mergeVisits([again], [sibling])).toEqual([again, sibling])
  })

  it('are limited to the newest', () => {
    const merged = mergeVisits(visits(...new Array<number>(MAX_VISITS).fill(3)), [
      visit(MAX_VISITS, 5),
    ])
    expect(merged).toHaveLength(MAX_VISITS)
    expect([merged[0]?.step, merged.at(-1)?.step]).toEqual([1, MAX_VISITS])
  })

  it('give the figures of a prompt', () => {
    expect(figuresOf(visits(8, 0, 2, 4))).toEqual({
      ...{ scored: 32, passed: 14, mean: 14 / 32 },
      ...{ recentScored: 16, recentPassed: 6, recentMean: 6 / 16, change: 6 / 16 - 0.5 },
      ...{ varied: 2, lastStep: 3 },
      class: expect.any(String),
    })
    expect(figuresOf(visits(8, 0)).change).toBeNull()
  })
})

it('compares means, not pass rates, if only some visits have passes', () => {
  const rule = { ...visit(0, 4), mean: 0, std: Math.sqrt(8 / 7) }
  const model = { ...rule, passed: null }
  const at = (step: number, of: Visit) => ({ ...of, step, batchId: 100 + step })
  const first = Array.from({ length: 20 }, (_, step) => at(step, rule))
  const then = Array.from({ length: 20 }, (_, step) => at(20 + step, model))
  expect(figuresOf([...first.slice(0, 6), ...then.slice(0, 2)]).change).toBe(0)
  expect(figuresOf([...then.slice(0, 4), ...first]).change).toBe(0)
  expect(classOf([...first, ...then])).toBe('mixed')
  expect(classOf([...then, ...first])).toBe('mixed')
})
