import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { rollouts, type Sample, sample } from '../../testkit/service/rollouts.ts'
import type { Service } from '../../testkit/service/service.ts'
import { leaveShared, sharedService } from '../../testkit/service/service-with-model.ts'
import { SimulatedServer } from '../../testkit/simulated-rm/server.ts'
import { LLAMA3, MISTRAL } from '../engines/testing/chat-templates.ts'
import { FakeServer } from '../engines/testing/fake-server.ts'

let folder: string
let service: Service
let rm: FakeServer
/** The texts sent to be scored, in order. */
const texts: string[] = []

beforeAll(async () => {
  ;({ service, functionsDir: folder } = await sharedService())
  // A fake SGLang with a reward model, whose raw score is the text's length minus 100.5.
  rm = await FakeServer.start(({ path, body }, res) => {
    const info = {
      '/v1/models': { data: [{ id: 'templated', owned_by: 'sglang', max_model_len: 8192 }] },
      '/model_info': { model_path: 'templated', is_generation: false },
    }[path]
    if (info) return void res.end(JSON.stringify(info))
    if (path !== '/v1/embeddings') return void res.writeHead(404).end('{}')
    const { input } = JSON.parse(body)
    texts.push(input)
    res.end(JSON.stringify({ data: [{ embedding: [input.length - 100.5] }] }))
  })
})
afterAll(() =>
  leaveShared(service, async () => {
    await rm?.close()
  }),
)

async function submit(samples: Partial<Sample>[]): Promise<string> {
  const { batchId } = await service.api.batches.submit.mutate({
    run: 'templates',
    step: 1,
    samples: samples.map((fields) => sample(fields)),
    reward: { model: 'templated' },
  })
  const { status } = await service.api.batches.wait.query({ batchId, waitMs: 30_000 })
  const { state, stateCause, health, workers } = await service.api.servers.get.query({
    name: 'templated',
  })
  expect(status, JSON.stringify({ state, stateCause, health, workers })).toBe('completed')
  return batchId
}

/** Waits until workers send this text for a sample, because they receive a changed template with a short delay. */
const writes = (text: string) =>
  expect
    .poll(async () => {
      texts.length = 0
      await submit([{ prompt: '6 × 12?', response: '72' }])
      return texts
    })
    .toEqual([text])

const detailOf = (batchId: string, index: number) =>
  service.api.samples.get.query({ id: `${batchId}-${index}` })

it('a chat template is applied to every text, including those of the self-test', async () => {
  const config = {
    ...LLAMA3,
    model_max_length: 8192,
    added_tokens_decoder: { 1: { content: 'x' } },
  }
  const server = await service.api.servers.register.mutate({
    name: 'templated',
    url: rm.url,
    engine: 'sglang',
    chatTemplate: JSON.stringify(config),
  })
  expect(server).toMatchObject({ state: 'ready', selfTest: { verdict: 'raw' } })
  expect(texts[0]).toMatch(/^<\|start_header_id\|>user<\|end_header_id\|>\n\nWhat is the capital/)
  const detail = await service.api.servers.get.query({ name: 'templated' })
  expect(JSON.parse(detail.chatTemplate as string)).toEqual({
    chat_template: LLAMA3.chat_template,
    bos_token: '<|begin_of_text|>',
    eos_token: '<|eot_id|>',
  })

  texts.length = 0
  await submit([{ prompt: '6 × 12?', response: '72<|eot_id|>' }])
  expect(texts).toEqual([
    '<|start_header_id|>user<|end_header_id|>\n\n6 × 12?<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n72<|eot_id|>',
  ])
})

it('reward functions can apply the chat template of a model', async () => {
  const path = 'by-template.ts'
  writeFileSync(
    join(folder, path),
    `export async function compute_score({ prompt, solution_str, model }, { router }) {
       const template = await router.chatTemplate(model)
       const turns = [{ role: 'user', content: prompt }]
       return {
         score: 1,
         begun: template.render(turns, { addGenerationPrompt: true }),
         written: template.renderSample({ prompt, response: solution_str }),
       }
     }`,
  )
  const scored = (model: string, timeoutMs?: number) =>
    service.api.samples.score.mutate({
      run: 'templates',
      step: 2,
      sample: sample({ prompt: '6 × 12?', response: '72' }),
      reward: { function: { path, kwargs: { model } }, timeoutMs },
    })
  const begun =
    '<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\n6 × 12?<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n'
  expect(await scored('templated')).toMatchObject({
    score: 1,
    rewardExtraInfo: { begun, written: `${begun}72<|eot_id|>` },
  })
  expect(await scored('other', 2_000)).toMatchObject({ status: 'failed', reason: 'no_server' })
})

it('a changed chat template is applied; a conversation that it refuses fails with its message', async () => {
  const changed = { name: 'templated', chatTemplate: JSON.stringify(MISTRAL) }
  expect(await service.api.servers.update.mutate(changed)).toMatchObject({
    state: 'ready',
  })
  await writes('[INST] 6 × 12? [/INST]72</s>')
  texts.length = 0
  const system = { role: 'system', content: 'Be brief.' }
  const batchId = await submit([
    { uid: 'a', prompt: [system, { role: 'user', content: '6 × 12?' }], response: '72' },
    { uid: 'b', prompt: '6 × 12?', response: '72' },
  ])
  const refused = await detailOf(batchId, 0)
  expect(refused).toMatchObject({ status: 'failed', reason: 'rejected', score: null })
  expect(refused.attemptLog[0]?.detail).toContain('Conversation roles must alternate')
  expect(await detailOf(batchId, 1)).toMatchObject({ status: 'scored', attempts: 1 })
  expect(texts).toEqual(['[INST] 6 × 12? [/INST]72</s>'])

  const without = { name: 'templated', chatTemplate: null }
  await service.api.servers.update.mutate(without)
  await writes('6 × 12?\n72')
  const refusedTo = await service.api.samples.score.mutate({
    run: 'templates',
    step: 3,
    sample: sample({ prompt: '6 × 12?', response: '72' }),
    reward: { function: { path: 'by-template.ts', kwargs: { model: 'templated' } } },
  })
  expect(refusedTo).toMatchObject({ status: 'failed', reason: 'function_error', score: null })
  expect(refusedTo.detail).toContain('no server of "templated" is registered with a chat template')
})

describe('judges', () => {
  let judge: SimulatedServer
  let other: SimulatedServer

  beforeAll(async () => {
    judge = await SimulatedServer.start({ dialect: 'chat', model: 'judge' })
    other = await SimulatedServer.start({ model: 'scorer' })
    await service.api.servers.register.mutate({
      name: 'judge-0',
      url: judge.url,
      engine: 'openai',
      kind: 'generative',
    })
    await service.api.servers.register.mutate({ name: 'scorer-0', url: other.url })
  })
  afterAll(async () => {
    for (const name of ['judge-0', 'scorer-0']) await service.api.servers.remove.mutate({ name })
    await judge.close()
    await other.close()
  })

  const judged = (reward: Record<string, unknown>, count = 16) =>
    service.api.batches.submit.mutate({ run: 'judged', step: 1, samples: rollouts(count), reward })
  const wait = (batchId: string) => service.api.batches.wait.query({ batchId, waitMs: 60_000 })
  const results = (batchId: string) => service.api.batches.results.query({ batchId })

  describe('a judge', () => {
    it('rates every sample with its template, and reports the tokens', async () => {
      const { batchId } = await judged({ model: 'judge', judge: 'rating-1-10' })
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

    it('is called once per vote, although the requests of a sample are equal', async () => {
      judge.control({ resetStats: true })
      const template = {
        name: 'votes',
        turns: [{ role: 'user', content: 'Rate from 1 to 10 as [[n]]:\n{response}' }],
        sampling: { temperature: 0.7 },
        parser: { kind: 'bracketed', min: 1, max: 10 },
        votes: { k: 3, combine: 'median' },
      }
      const { batchId } = await judged({ model: 'judge', judge: template }, 8)
      expect(await wait(batchId)).toMatchObject({ scored: 8 })
      expect(judge.stats().textsTotal).toBe(24)
    })

    it('fails the sample if its reply cannot be parsed, and never scores it', async () => {
      const template = {
        name: 'yes-or-no',
        turns: [{ role: 'user', content: 'Say A or B: {response}' }],
        parser: { kind: 'verdict' },
      }
      const { batchId } = await judged({ model: 'judge', judge: template }, 4)
      expect(await wait(batchId)).toMatchObject({ status: 'completed', scored: 0, failed: 4 })
      const { score, reason } = await results(batchId)
      expect(score).toEqual([null, null, null, null])
      expect(new Set(reason)).toEqual(new Set(['unparseable']))
      const detail = await service.api.samples.get.query({ id: `${batchId}-0` })
      expect(detail.attemptLog.length).toBeGreaterThan(0)
    })

    it('needs an existing and valid template; a discriminative model accepts none', async () => {
      const refuse = (reward: Record<string, unknown>, message: RegExp) =>
        expect(judged(reward, 1)).rejects.toMatchObject({
          message: expect.stringMatching(message),
          data: { reason: 'invalid_input', httpStatus: 400 },
        })
      await refuse({ model: 'judge' }, /reward\.judge.*needs a judge/)
      await refuse({ model: 'judge', judge: 'rating-1-1' }, /Did you mean "rating-1-10"/)
      await refuse(
        { model: 'scorer', judge: 'rating-1-10' },
        /is discriminative and takes no judge/,
      )
      await refuse({ judge: 'rating-1-10' }, /needs reward\.model/)
      await refuse(
        { model: 'judge', judge: { name: 'x', turns: [], parser: { kind: 'number' } } },
        /reward\.judge\.turns/,
      )
    })
  })

  describe('the dapo manager', () => {
    it('adds the overlong penalty to the rule’s score, which is kept as the raw score', async () => {
      const reward = {
        manager: 'dapo',
        kwargs: {
          max_resp_len: 100,
          overlong_buffer_cfg: { enable: true, len: 40, penalty_factor: 1, log: true },
        },
      }
      const { batchId } = await service.api.batches.submit.mutate({
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
})
