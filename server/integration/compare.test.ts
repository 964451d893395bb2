import { existsSync, readFileSync } from 'node:fs'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { SimulatedServers } from '../../testkit/processes/simulated-rm.ts'
import { batchCalls } from '../../testkit/service/batch-calls.ts'
import { expectRefusal } from '../../testkit/service/refusals.ts'
import { rollouts, type Sample, type Submit, sample } from '../../testkit/service/rollouts.ts'
import type { Service } from '../../testkit/service/service.ts'
import {
  leaveShared,
  sharedService,
  startWithModel,
} from '../../testkit/service/service-with-model.ts'
import { waitFor } from '../../testkit/service/wait-for.ts'
import type {
  ComparedGroupDto,
  ComparedPage,
  ComparedSampleDto,
  ComparePairDto,
} from '../contract/compare.ts'

const DATA = new URL('../../../shared/data/', import.meta.url)
const hasData = existsSync(DATA)

interface Golden {
  name: string
  n: number
  mean: [number, number]
  pearson: number
  spearman: number
  kappa: number
  tau: number
  tauGroups: number
  comparable: number
  reversed: number
  signs: number[][]
}
const golden: Golden[] = JSON.parse(
  readFileSync(new URL('../rewards/comparison/golden/golden.json', import.meta.url), 'utf8'),
)
const goldenOf = (name: string) => golden.find((one) => one.name.startsWith(name)) as Golden

let service: Service
let rm: SimulatedServers

beforeAll(async () => {
  ;[service, rm] = await startWithModel(sharedService().then((shared) => shared.service))
})
afterAll(() => leaveShared(service, () => rm?.stop()))

const calls = batchCalls(() => service, { run: 'compared' })
const { ended } = calls
const submit = async (samples: Sample[], fields?: Partial<Submit>) =>
  (await calls.submit(samples, fields)).batchId
async function rescore(batchId: string, reward: NonNullable<Submit['reward']>): Promise<string> {
  const made = await service.api.batches.rescore.mutate({ batchId, reward })
  return made.batchId
}
const pairOf = (first: string, second: string) => service.api.compare.pair.query({ first, second })
const lines = <T>(path: string): T[] =>
  readFileSync(new URL(path, DATA), 'utf8')
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line))

function expectGolden(pair: ComparePairDto, want: Golden): void {
  expect(pair.n).toBe(want.n)
  expect(pair.pearson).toBeCloseTo(want.pearson, 10)
  expect(pair.spearman).toBeCloseTo(want.spearman, 10)
  expect(pair.scores.first.mean).toBeCloseTo(want.mean[0], 10)
  expect(pair.scores.second.mean).toBeCloseTo(want.mean[1], 10)
  expect(pair.groups.tau).toBeCloseTo(want.tau, 10)
  const { tauGroups, comparable, reversed, signs } = pair.groups
  expect({ tauGroups, comparable, reversed, signs }).toEqual({
    tauGroups: want.tauGroups,
    comparable: want.comparable,
    reversed: want.reversed,
    signs: want.signs,
  })
}

describe('a batch and its rescore', () => {
  it.skipIf(!hasData)(
    'have the comparison of an independent script: a rule with a real reward model',
    async () => {
      const rows = lines<{ query: string; answer: string; code: string[]; pred_score: number[][] }>(
        'qwen-math-rm8/groups.first20.jsonl',
      )
      const by = await submit(
        rows.flatMap(({ query, answer, code, pred_score }, group) =>
          code.map((response, k) =>
            sample({
              ...{ uid: `q${group}`, dataSource: 'HuggingFaceH4/MATH-500', prompt: query },
              ...{ response, groundTruth: answer, score: pred_score[k]?.[0] as number },
            }),
          ),
        ),
        { run: 'qwen' },
      )
      const rule = await rescore(by, {})
      await Promise.all([ended(by), ended(rule)])
      const pair = await pairOf(rule, by)
      expect(pair).toMatchObject({ joinedBy: 'index', isLive: false, unmatched: [] })
      expectGolden(pair, goldenOf('qwen-math-rm8'))
      expect(pair.classes).toBeNull()
    },
  )

  it.skipIf(!hasData)(
    'have the comparison of an independent script: strict with flexible on 200 real groups, over all pages',
    async () => {
      const rows = lines<{
        question: string
        ground_truth: string
        responses: { response: string }[]
      }>('gsm8k-groups8/groups.first200.jsonl')
      const strict = await submit(
        rows.flatMap(({ question, ground_truth, responses }, group) =>
          responses.map(({ response }) =>
            sample({
              ...{ uid: `g${group}`, dataSource: 'openai/gsm8k', prompt: question },
              ...{ response, groundTruth: ground_truth },
            }),
          ),
        ),
        { run: 'gsm8k' },
      )
      const flexible = await rescore(strict, {
        function: { name: 'gsm8k', kwargs: { method: 'flexible' } },
      })
      await Promise.all([ended(strict), ended(flexible)])
      const pair = await pairOf(strict, flexible)
      const want = goldenOf('gsm8k-groups8')
      expectGolden(pair, want)
      expect(pair.classes?.kappa).toBeCloseTo(want.kappa, 10)

      const results = await service.api.batches.results.query({ batchId: flexible, limit: 10_000 })
      const seen: ComparedSampleDto[] = []
      for (let cursor: string | null = null; ; ) {
        const page: ComparedPage<ComparedSampleDto> = await service.api.compare.samples.query({
          first: strict,
          second: flexible,
          cursor,
          limit: 200,
        })
        expect(page.total).toBe(1600)
        seen.push(...page.items)
        cursor = page.nextCursor
        if (cursor === null) break
      }
      expect(new Set(seen.map(({ firstId }) => firstId)).size).toBe(1600)
      let before = Number.POSITIVE_INFINITY
      const wrong = seen.filter((row) => {
        const apart = Math.abs((row.secondAdvantage as number) - (row.firstAdvantage as number))
        const index = Number(row.secondId.split('-')[1])
        const delivered = results.advantage[index] as number
        const isRight =
          apart <= before &&
          row.second === results.score[index] &&
          row.uid === results.uid[index] &&
          Math.abs((row.secondAdvantage as number) - delivered) < 1e-10
        before = apart
        return !isRight
      })
      expect(wrong).toEqual([])
      const signFlipped = await service.api.compare.samples.query({
        first: strict,
        second: flexible,
        signFlipped: true,
        limit: 200,
      })
      expect(signFlipped.total).toBe(pair.groups.signFlipped)
      const groups = await service.api.compare.groups.query({
        first: strict,
        second: flexible,
        limit: 200,
      })
      expect(groups.total).toBe(200)
      const taus = groups.items.flatMap(({ tau }) => tau ?? [])
      expect(taus).toHaveLength(want.tauGroups)
      expect(taus).toEqual(taus.toSorted((a, b) => a - b))
      const { uid } = groups.items[0] as ComparedGroupDto
      const ofGroup = await service.api.compare.samples.query({
        first: strict,
        second: flexible,
        uid,
        by: 'rank',
      })
      expect(ofGroup.items.map((row) => row.uid)).toEqual(new Array(8).fill(uid))
    },
  )

  it('are compared while one is still being scored, and completely at the end', async () => {
    const first = await submit(rollouts(64, 4))
    // With two concurrent calls, the batch takes 8 s unless the latency is reduced, as below.
    await rm.control({ latency: 'uniform:100,400' })
    const second = await rescore(first, { model: 'simulated-rm', maxConcurrency: 2 })
    const live = await waitFor('a comparison that grows', async () => {
      const pair = await pairOf(first, second)
      return pair.isLive && pair.n > 0 ? pair : false
    })
    expect(live.n + live.unmatched.reduce((n, { samples }) => n + samples, 0)).toBe(64)
    await rm.control({ latency: 'uniform:0,1' })
    await ended(second)
    const pair = await pairOf(first, second)
    expect(pair).toMatchObject({ isLive: false, n: 64, unmatched: [] })
    const inCells: string[] = []
    for (const [x, y, n] of pair.joint?.cells ?? []) {
      const { items, total } = await service.api.compare.samples.query({
        ...{ first, second, by: 'score', cell: [x, y] },
      })
      expect([total, items.length]).toEqual([n, n])
      inCells.push(...items.map(({ firstId }) => firstId))
    }
    expect(new Set(inCells).size).toBe(64)
    const candidates = await service.api.compare.candidates.query({ batchId: second })
    expect(candidates.sameRollouts.map(({ batchId }) => batchId)).toEqual([first])
    const { recent } = await service.api.compare.candidates.query({ run: 'compared' })
    expect(recent[0]).toMatchObject({ first: { batchId: first }, second: { batchId: second } })
  })
})

describe('batches that are not rescores of each other', () => {
  it('are joined by uid and response, in any order, and unmatched samples are reported', async () => {
    const samples = rollouts(24, 4).map((one, at) => ({
      ...one,
      response: `${one.response} ${at}`,
    }))
    const first = await submit(samples, { run: 'one' })
    const others = [
      ...samples.slice(0, 12).reverse(),
      sample({ uid: samples[0]?.uid as string, response: 'another answer' }),
      sample({ uid: 'nobody' }),
    ]
    const second = await submit(others, { run: 'two' })
    await Promise.all([ended(first), ended(second)])
    const pair = await pairOf(first, second)
    expect(pair).toMatchObject({ joinedBy: 'response', n: 12, pearson: 1 })
    const by = Object.fromEntries(pair.unmatched.map(({ reason, samples }) => [reason, samples]))
    expect(by).toEqual({ only_first: 12, other_response: 1, only_second: 1 })
    expect(pair.prompts.n).toBe(3)
  })

  it('are joined by response if they are parts of one batch, even parts of equal size', async () => {
    const samples = rollouts(8, 4).map((one, at) => ({ ...one, response: `${one.response} ${at}` }))
    const whole = await submit(samples, { run: 'parts' })
    await ended(whole)
    const part = async (indexes: number[]) => {
      const made = await service.api.batches.rescore.mutate({
        batchId: whole,
        reward: {},
        select: { indexes, wholeGroups: false },
      })
      await ended(made.batchId)
      return made.batchId
    }
    const [one, other] = [await part([0, 1, 4, 5]), await part([1, 2, 5, 6])]
    expect(await pairOf(one, other)).toMatchObject({ joinedBy: 'response', n: 2 })
    expect(await pairOf(whole, one)).toMatchObject({ joinedBy: 'response', n: 4 })
  })

  it('are refused if one is unknown or too large, or both are the same', async () => {
    const ask = (input: object) =>
      service.raw(`/api/trpc/compare.pair?input=${encodeURIComponent(JSON.stringify(input))}`)
    const one = await submit(rollouts(4), { run: 'large' })
    await ended(one)
    expectRefusal(await ask({ first: one, second: 'b999999' }), {
      ...{ status: 404, reason: 'batch_not_found', message: 'There is no batch b999999.' },
    })
    expectRefusal(await ask({ first: one, second: one }), {
      ...{ status: 400, reason: 'invalid_input', message: 'must be a batch other than first' },
    })
    const two = await submit(rollouts(4), { run: 'large' })
    await ended(two)
    await service.sql('update batch set samples = 200000 where id = $1', [Number(two.slice(1))])
    expectRefusal(await ask({ first: one, second: two }), {
      ...{ status: 422, reason: 'comparison_too_large', message: '200000 samples' },
    })
  })
})

function errorOverGroups(scores: readonly number[], size: number): number {
  const mean = scores.reduce((sum, score) => sum + score, 0) / scores.length
  const sums = Array.from({ length: scores.length / size }, (_, group) =>
    scores.slice(group * size, (group + 1) * size).reduce((sum, score) => sum + score - mean, 0),
  )
  const squares = sums.reduce((sum, d) => sum + d * d, 0)
  return Math.sqrt((sums.length / (sums.length - 1)) * squares) / scores.length
}

describe('runs', () => {
  it('are compared with the first one by step; rescores are excluded, also from components', async () => {
    const combine = [
      { name: 'right', weight: 1 },
      { name: 'loose', weight: 0.5, reward: { kwargs: { method: 'flexible' } } },
    ]
    const means = new Map<string, number>()
    const errors = new Map<string, number>()
    for (const run of ['base', 'tried']) {
      for (const step of [1, 2]) {
        const samples = rollouts(16, 4).map((one, at) => ({
          ...one,
          response: at < step * (run === 'base' ? 2 : 4) ? '#### 72' : 'no',
          groundTruth: '72',
        }))
        const id = await submit(samples, { run, step, reward: { combine } })
        means.set(`${run} ${step}`, (await ended(id)).mean as number)
        const { score } = await service.api.batches.results.query({ batchId: id })
        errors.set(`${run} ${step}`, errorOverGroups(score as number[], 4))
        if (run === 'base' && step === 2) {
          const doubled = combine.map((part) => ({ ...part, weight: 2 * part.weight }))
          await ended(await rescore(id, { combine: doubled }))
        }
      }
    }
    const trends = await waitFor('the roll-ups', async () => {
      const runs = await service.api.compare.runs.query({ runs: ['base', 'tried', 'missing'] })
      const isRolledUp = runs.deltas[0]?.steps.length === 2 && runs.runs.every((run) => run.reward)
      return isRolledUp ? runs : false
    })
    expect(trends.missing).toEqual(['missing'])
    expect(trends.runs[0]?.reward).toEqual(trends.runs[1]?.reward)
    expect(trends.runs[0]?.reward?.version).toMatch(/^[0-9a-f]+$/)
    expect(trends.runs.map(({ name, step }) => [name, step])).toEqual([
      ['base', [1, 2]],
      ['tried', [1, 2]],
    ])
    for (const run of trends.runs)
      for (const [at, step] of run.step.entries())
        expect(run.mean[at]).toBeCloseTo(means.get(`${run.name} ${step}`) as number, 12)
    for (const { step, delta, low, high, nFirst, nOther } of trends.deltas[0]?.steps ?? []) {
      const want = (means.get(`tried ${step}`) as number) - (means.get(`base ${step}`) as number)
      expect(delta).toBeCloseTo(want, 12)
      expect([nFirst, nOther]).toEqual([16, 16])
      const error = Math.hypot(...['base', 'tried'].map((run) => errors.get(`${run} ${step}`)!))
      expect(low).toBeCloseTo(delta - 1.959964 * error, 12)
      expect(high).toBeCloseTo(delta + 1.959964 * error, 12)
    }
    const { components } = await service.api.rewards.components.query({ run: 'base' })
    expect(components[0]?.points.map(({ step }) => step)).toEqual([1, 2])
  })
})
