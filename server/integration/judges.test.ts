import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { rollouts, sample } from '../../testkit/service/rollouts.ts'
import { Service } from '../../testkit/service/service.ts'
import { SimulatedServer } from '../../testkit/simulated-rm/server.ts'
import type { SampleDetailDto } from '../contract/pages.ts'
import type { BatchSummary, ResultsColumns, SubmitResult } from '../contract/trainer.ts'

/** Judges as the reward of a batch, over a server with the chat protocol. */

let service: Service
let judge: SimulatedServer
let other: SimulatedServer

beforeAll(async () => {
  service = await Service.start()
  judge = await SimulatedServer.start({ dialect: 'chat', model: 'judge' })
  other = await SimulatedServer.start({ model: 'scorer' })
  await service.mutate('servers.register', {
    name: 'judge-0',
    url: judge.url,
    engine: 'openai',
    kind: 'generative',
  })
  await service.mutate('servers.register', { name: 'scorer-0', url: other.url })
})

afterAll(async () => {
  await judge?.close()
  await other?.close()
  const problems = service?.log.problems()
  await service?.stop().finally(() => service.destroy())
  expect(problems).toEqual([])
})

const submit = (reward: Record<string, unknown>, count = 16) =>
  service.mutate<SubmitResult>('batches.submit', {
    run: 'judged',
    step: 1,
    samples: rollouts(count),
    reward,
  })
const wait = (batchId: string) =>
  service.query<BatchSummary>('batches.wait', { batchId, waitMs: 60_000 })
const results = (batchId: string) => service.query<ResultsColumns>('batches.results', { batchId })

describe('a judge', () => {
  it('rates every sample by its template, and reports the cost', async () => {
    const { batchId } = await submit({ model: 'judge', judge: 'rating-1-10' })
    expect(await wait(batchId)).toMatchObject({ status: 'completed', scored: 16, failed: 0 })
    const { score, rewardExtraInfo } = await results(batchId)
    for (const value of score) {
      expect(value).toBeGreaterThanOrEqual(1)
      expect(value).toBeLessThanOrEqual(10)
    }
    expect(rewardExtraInfo.judge).toEqual(score.map(() => 'rating-1-10'))
    for (const tokens of rewardExtraInfo.judge_prompt_tokens as number[]) {
      expect(tokens).toBeGreaterThan(0)
    }
  })

  it('is called once per vote: k votes are k calls, identical or not', async () => {
    judge.control({ resetStats: true })
    const template = {
      name: 'votes',
      turns: [{ role: 'user', content: 'Rate from 1 to 10 as [[n]]:\n{response}' }],
      sampling: { temperature: 0.7 },
      parser: { kind: 'bracketed', min: 1, max: 10 },
      votes: { k: 3, combine: 'median' },
    }
    const { batchId } = await submit({ model: 'judge', judge: template }, 8)
    expect(await wait(batchId)).toMatchObject({ scored: 8 })
    expect(judge.stats().textsTotal).toBe(24)
  })

  it('whose reply cannot be read gives a failure, never a score', async () => {
    const template = {
      name: 'yes-or-no',
      turns: [{ role: 'user', content: 'Say A or B: {response}' }],
      parser: { kind: 'verdict' },
    }
    const { batchId } = await submit({ model: 'judge', judge: template }, 4)
    expect(await wait(batchId)).toMatchObject({ status: 'completed', scored: 0, failed: 4 })
    const { score, reason } = await results(batchId)
    expect(score).toEqual([null, null, null, null])
    expect(new Set(reason)).toEqual(new Set(['unparseable']))
    const detail = await service.query<SampleDetailDto>('samples.get', { id: `${batchId}-0` })
    expect(detail.attemptLog.length).toBeGreaterThan(0)
  })

  it('needs a template that exists and is valid; a discriminative model needs none', async () => {
    const refuse = (reward: Record<string, unknown>, message: RegExp) =>
      expect(submit(reward, 1)).rejects.toMatchObject({
        message: expect.stringMatching(message),
        data: { reason: 'invalid_input', httpStatus: 400 },
      })
    await refuse({ model: 'judge' }, /reward\.judge.*needs a judge/)
    await refuse({ model: 'judge', judge: 'rating-1-1' }, /Did you mean "rating-1-10"/)
    await refuse({ model: 'scorer', judge: 'rating-1-10' }, /is discriminative and takes no judge/)
    await refuse({ judge: 'rating-1-10' }, /needs reward\.model/)
    await refuse(
      { model: 'judge', judge: { name: 'x', turns: [], parser: { kind: 'number' } } },
      /reward\.judge\.turns/,
    )
  })
})

describe('the dapo manager', () => {
  it('adds the overlong penalty to the rule’s score and keeps that as the raw one', async () => {
    const reward = {
      manager: 'dapo',
      kwargs: {
        max_resp_len: 100,
        overlong_buffer_cfg: { enable: true, len: 40, penalty_factor: 1, log: true },
      },
    }
    const { batchId } = await service.mutate<SubmitResult>('batches.submit', {
      run: 'dapo',
      step: 1,
      reward,
      samples: [
        sample({ responseLength: 40 }),
        sample({ responseLength: 80 }),
        sample({ responseLength: 100 }),
        sample(),
      ],
    })
    expect(await wait(batchId)).toMatchObject({ scored: 3, failed: 1 })
    const { score, rawScore, reason } = await results(batchId)
    expect(score).toEqual([1, 0.5, 0, null])
    expect(rawScore).toEqual([1, 1, 1, null])
    expect(reason[3]).toBe('function_error')
  })
})
