import { hash } from 'node:crypto'
import { expect, it } from 'vitest'
import { PromptSampleInput } from '../contract/prompts.ts'
import type { PassClass } from '../store/sql/prompts.ts'
import { drawPrompts } from './draw-prompts.ts'

/** Returns a key prefix, evenly distributed like a hash. Its last byte is the number of passes. */
function keyOf(c: number, i: number): string {
  return `${hash('md5', `${c}/${i}`).slice(0, 14)}${c.toString(16).padStart(2, '0')}`
}

const classOf = (scored: number, passed: number, keys: readonly string[]): PassClass => ({
  ...{ scored, passed, keys: Buffer.from(keys.join(''), 'hex') },
})

/** 100 prompts for each of the pass rates 0/16 to 16/16. */
const RATES = Array.from({ length: 17 }, (_, c) =>
  classOf(
    16,
    c,
    Array.from({ length: 100 }, (_, i) => keyOf(c, i)),
  ),
)

function draw(input: object, from: readonly PassClass[] = RATES) {
  const work = drawPrompts(from, PromptSampleInput.parse({ run: 'r', seed: 1, ...input }))
  for (;;) {
    const step = work.next()
    if (step.done) return step.value
  }
}
const [KNOWN, UNKNOWN] = [keyOf(0, 1), keyOf(0, 2)]
const ratesOf = (keys: readonly string[]) =>
  keys.map((key) => Number.parseInt(key.slice(-2), 16) / 16)

it('draws uniformly within the band', () => {
  const { keys, eligible } = draw({ strategy: 'band', n: 450, band: { from: 0.25, to: 0.75 } })
  expect(eligible).toBe(900)
  expect(new Set(keys).size).toBe(450)
  const counts = Map.groupBy(ratesOf(keys), (rate) => rate)
  expect([...counts.keys()].sort()).toEqual([
    0.25, 0.3125, 0.375, 0.4375, 0.5, 0.5625, 0.625, 0.6875, 0.75,
  ])
  // 50 prompts of each rate are expected, with a standard deviation of 4.7.
  for (const { length } of counts.values()) expect(Math.abs(length - 50)).toBeLessThan(18)
})

it('draws prompts near the target, and some with few samples', () => {
  const { keys, eligible } = draw({ strategy: 'thompson', n: 300 })
  expect(eligible).toBe(1_700)
  const rates = ratesOf(keys)
  const mean = rates.reduce((sum, rate) => sum + rate, 0) / rates.length
  expect(Math.abs(mean - 0.5)).toBeLessThan(0.03)
  expect(rates.filter((rate) => rate === 0 || rate === 1)).toEqual([])
  const easy = ratesOf(draw({ strategy: 'thompson', n: 300, target: 0.8 }).keys)
  expect(Math.abs(easy.reduce((sum, rate) => sum + rate, 0) / 300 - 0.8)).toBeLessThan(0.05)
  const unsure = [classOf(400, 80, [KNOWN]), classOf(1, 0, [UNKNOWN])]
  const firsts = Array.from(
    { length: 200 },
    (_, seed) => draw({ strategy: 'thompson', n: 1, seed }, unsure).keys[0],
  )
  const share = firsts.filter((key) => key === UNKNOWN).length / firsts.length
  expect(share).toBeGreaterThan(0.35)
  expect(share).toBeLessThan(0.65)
})

it('draws each prompt of the band with the same probability', () => {
  const seeds = 400
  const counts = new Map<string, number>()
  for (let seed = 0; seed < seeds; seed++) {
    const { keys } = draw({ strategy: 'band', n: 90, band: { from: 0.25, to: 0.75 }, seed })
    for (const key of keys) counts.set(key, (counts.get(key) ?? 0) + 1)
  }
  expect(counts.size).toBe(900)
  // A tenth of the prompts is drawn, so the counts have the variance of 400 draws with a probability of 0.1.
  const variance = [...counts.values()].reduce((sum, n) => sum + (n - seeds / 10) ** 2, 0) / 900
  expect(variance / (seeds * 0.1 * 0.9)).toBeGreaterThan(0.85)
  expect(variance / (seeds * 0.1 * 0.9)).toBeLessThan(1.15)
})

it('draws by the exact posterior, at any number of samples', () => {
  // The share of x < y for x ~ Beta(1, 2) and y ~ Beta(2, 1) is 5/6. Equal posteriors are drawn equally often.
  for (const [a, b, share] of [
    [classOf(1, 0, [KNOWN]), classOf(1, 1, [UNKNOWN]), 5 / 6],
    [classOf(30, 12, [KNOWN]), classOf(30, 12, [UNKNOWN]), 1 / 2],
    [classOf(300, 120, [KNOWN]), classOf(300, 120, [UNKNOWN]), 1 / 2],
  ] as const) {
    const seeds = 2_000
    let first = 0
    for (let seed = 0; seed < seeds; seed++) {
      if (draw({ strategy: 'thompson', n: 1, target: 0, seed }, [a, b]).keys[0] === KNOWN) first++
    }
    expect(Math.abs(first / seeds - share)).toBeLessThan(
      4 * Math.sqrt((share * (1 - share)) / seeds),
    )
  }
})

it('does not depend on the order of the rows', () => {
  const reversed = RATES.toReversed().map(({ scored, passed, keys }) =>
    classOf(scored, passed, (keys.toString('hex').match(/.{16}/g) ?? []).toReversed()),
  )
  for (const strategy of ['band', 'thompson']) {
    expect(draw({ strategy, n: 50 }, reversed)).toEqual(draw({ strategy, n: 50 }))
  }
})

it('draws the same prompts for the same seed', () => {
  expect(draw({ strategy: 'thompson', n: 50 })).toEqual(draw({ strategy: 'thompson', n: 50 }))
  expect(draw({ strategy: 'band', n: 50 })).not.toEqual(draw({ strategy: 'band', n: 50, seed: 2 }))
})
