import { hash } from 'node:crypto'
import { expect, it } from 'vitest'
import { PromptSampleInput } from '../contract/prompts.ts'
import type { PassColumns } from '../store/sql/prompts.ts'
import { drawPrompts } from './draw-prompts.ts'

/** A key as hashes are: evenly spread. Its last digits are the number of passes. */
function keyOf(c: number, i: number): string {
  return `${hash('md5', `${c}/${i}`).slice(0, 30)}${String(c).padStart(2, '0')}`
}

/** 100 prompts of each pass rate 0/16 to 16/16. */
const columns: PassColumns = { key: [], scored: [], passed: [] }
for (let c = 0; c <= 16; c++) {
  for (let i = 0; i < 100; i++) {
    columns.key.push(keyOf(c, i))
    columns.scored.push(16)
    columns.passed.push(c)
  }
}

function draw(input: object, from: PassColumns = columns) {
  const work = drawPrompts(from, PromptSampleInput.parse({ run: 'r', seed: 1, ...input }))
  for (;;) {
    const step = work.next()
    if (step.done) return step.value
  }
}
const [KNOWN, UNKNOWN] = [keyOf(0, 1), keyOf(0, 2)]
const ratesOf = (keys: readonly string[]) => keys.map((key) => Number(key.slice(-2)) / 16)

it('draws uniformly within the band', () => {
  const { keys, eligible } = draw({ strategy: 'band', n: 450, band: { from: 0.25, to: 0.75 } })
  expect(eligible).toBe(900)
  expect(new Set(keys).size).toBe(450)
  const counts = Map.groupBy(ratesOf(keys), (rate) => rate)
  expect([...counts.keys()].sort()).toEqual([
    0.25, 0.3125, 0.375, 0.4375, 0.5, 0.5625, 0.625, 0.6875, 0.75,
  ])
  // 50 of each rate are expected; 100 draws of a half have a standard deviation of 3.5 here.
  for (const { length } of counts.values()) expect(Math.abs(length - 50)).toBeLessThan(18)
})

it('draws prompts near the target, and some of which little is known', () => {
  const { keys, eligible } = draw({ strategy: 'thompson', n: 300 })
  expect(eligible).toBe(1_700)
  const rates = ratesOf(keys)
  const mean = rates.reduce((sum, rate) => sum + rate, 0) / rates.length
  expect(Math.abs(mean - 0.5)).toBeLessThan(0.03)
  expect(rates.filter((rate) => rate === 0 || rate === 1)).toEqual([])
  const easy = ratesOf(draw({ strategy: 'thompson', n: 300, target: 0.8 }).keys)
  expect(Math.abs(easy.reduce((sum, rate) => sum + rate, 0) / 300 - 0.8)).toBeLessThan(0.05)
  const unsure: PassColumns = { key: [KNOWN, UNKNOWN], scored: [400, 1], passed: [80, 0] }
  const firsts = Array.from(
    { length: 200 },
    (_, seed) => draw({ strategy: 'thompson', n: 1, seed }, unsure).keys[0],
  )
  const share = firsts.filter((key) => key === UNKNOWN).length / firsts.length
  expect(share).toBeGreaterThan(0.35)
  expect(share).toBeLessThan(0.65)
})

it('does not depend on the order of the rows', () => {
  const reversed = {
    key: columns.key.toReversed(),
    scored: columns.scored.toReversed(),
    passed: columns.passed.toReversed(),
  }
  for (const strategy of ['band', 'thompson']) {
    expect(draw({ strategy, n: 50 }, reversed)).toEqual(draw({ strategy, n: 50 }))
  }
})

it('repeats itself by seed', () => {
  expect(draw({ strategy: 'thompson', n: 50 })).toEqual(draw({ strategy: 'thompson', n: 50 }))
  expect(draw({ strategy: 'band', n: 50 })).not.toEqual(draw({ strategy: 'band', n: 50, seed: 2 }))
})
