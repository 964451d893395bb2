import { readFile } from 'node:fs/promises'
import { expect, test } from 'vitest'
import { openRollouts } from '../../packages/cli/rollouts/read-rollouts.ts'
import { ruleForDataSource } from '../../server/rewards/rules/registry.ts'
import { DEMO_ROLLOUTS, generateRollouts, rolloutLines } from './generate.ts'
import { RIGHT_ANSWERS } from './questions.ts'
import { RIGHT } from './responses.ts'

const samples = generateRollouts()

test('the bundled file equals the generator’s output and is small', async () => {
  const bundled = await readFile(DEMO_ROLLOUTS, 'utf8')
  expect(bundled === rolloutLines(samples)).toBe(true)
  expect(Buffer.byteLength(bundled)).toBeLessThan(600_000)
})

test('the bundled file is JSON Lines with 64 groups of 8 from three data sources', async () => {
  const file = await openRollouts(DEMO_ROLLOUTS)
  expect(file.format).toBe('samples')
  const read = []
  for await (const { sample } of file.rollouts()) read.push(sample)
  expect(read).toEqual(samples)
  const groups = Map.groupBy(samples, (sample) => sample.uid)
  expect(groups.size).toBe(64)
  expect(new Set([...groups.values()].map((group) => group.length))).toEqual(new Set([8]))
  expect(new Set(samples.map((sample) => sample.dataSource))).toEqual(
    new Set(['openai/gsm8k', 'math_dapo', 'searchR1_nq']),
  )
})

test('the rules score 1 exactly where a correct answer is planted', () => {
  const wrongly = samples.filter((sample) => {
    const result = ruleForDataSource(sample.dataSource)?.score({
      dataSource: sample.dataSource,
      solutionStr: sample.response,
      groundTruth: sample.groundTruth,
      extraInfo: {},
      kwargs: {},
    })
    const planted = sample.extraInfo?.planted as never
    return (result?.score === 1) !== (RIGHT.has(planted) || RIGHT_ANSWERS.has(planted))
  })
  expect(wrongly).toEqual([])
})

test('groups are mixed, all correct or all incorrect', () => {
  const kinds = new Set<string>()
  for (const group of Map.groupBy(samples, (sample) => sample.uid).values()) {
    const right = group.filter((s) => RIGHT.has(s.extraInfo?.planted as never)).length
    kinds.add(right === 0 ? 'none' : right === group.length ? 'all' : 'mixed')
  }
  expect(kinds).toEqual(new Set(['none', 'all', 'mixed']))
  expect(new Set(samples.map((s) => s.extraInfo?.planted)).size).toBeGreaterThanOrEqual(12)
})
