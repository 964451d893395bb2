import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { type Sample, sample } from '../../testkit/service/rollouts.ts'
import { Service } from '../../testkit/service/service.ts'
import { stopCleanly } from '../../testkit/service/service-with-model.ts'
import type { SampleDetailDto } from '../contract/pages.ts'
import type { ServerDetailDto } from '../contract/server-detail.ts'
import type { ServerDto } from '../contract/servers.ts'
import type { BatchSummary, ScoreResult, SubmitResult } from '../contract/trainer.ts'
import { LLAMA3, MISTRAL } from '../engines/testing/chat-templates.ts'
import { FakeServer } from '../engines/testing/fake-server.ts'

/** A server with a registered chat template receives templated texts; a sample that the template refuses fails. */

const folder = mkdtempSync(join(tmpdir(), 'rewardops-templates-'))
let service: Service
let rm: FakeServer
/** The texts sent to be scored, in order. */
const texts: string[] = []

beforeAll(async () => {
  service = await Service.start({ env: { REWARDOPS_FUNCTIONS_DIR: folder } })
  // SGLang with a reward model: the score is the text's length, minus 100 if it is raw.
  rm = await FakeServer.start(({ path, body }, res) => {
    const info = {
      '/v1/models': { data: [{ id: 'rm', owned_by: 'sglang', max_model_len: 8192 }] },
      '/model_info': { model_path: 'rm', is_generation: false },
    }[path]
    if (info) return void res.end(JSON.stringify(info))
    if (path !== '/v1/embeddings') return void res.writeHead(404).end('{}')
    const { input } = JSON.parse(body)
    texts.push(input)
    res.end(JSON.stringify({ data: [{ embedding: [input.length - 100.5] }] }))
  })
})
afterAll(() =>
  stopCleanly(service, async () => {
    await rm?.close()
    rmSync(folder, { recursive: true, force: true })
  }),
)

async function submit(samples: Partial<Sample>[]): Promise<string> {
  const { batchId } = await service.mutate<SubmitResult>('batches.submit', {
    run: 'templates',
    step: 1,
    samples: samples.map((fields) => sample(fields)),
    reward: { model: 'rm' },
  })
  await service.query<BatchSummary>('batches.wait', { batchId, waitMs: 60_000 })
  return batchId
}

/** Workers receive a change shortly after it is made. */
const writes = (text: string) =>
  expect
    .poll(
      async () => {
        texts.length = 0
        await submit([{ prompt: '6 × 12?', response: '72' }])
        return texts
      },
      { timeout: 20_000 },
    )
    .toEqual([text])

const detailOf = (batchId: string, index: number) =>
  service.query<SampleDetailDto>('samples.get', { id: `${batchId}-${index}` })

it('writes every text as the model reads it, those of the self-test included', async () => {
  // Users paste the whole tokenizer_config.json.
  const config = {
    ...LLAMA3,
    model_max_length: 8192,
    added_tokens_decoder: { 1: { content: 'x' } },
  }
  const server = await service.mutate<ServerDto>('servers.register', {
    name: 'rm',
    url: rm.url,
    engine: 'sglang',
    chatTemplate: JSON.stringify(config),
  })
  expect(server).toMatchObject({ state: 'ready', selfTest: { verdict: 'raw' } })
  expect(texts[0]).toMatch(/^<\|start_header_id\|>user<\|end_header_id\|>\n\nWhat is the capital/)
  const detail = await service.query<ServerDetailDto>('servers.get', { name: 'rm' })
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

it('is available to reward functions in the template of its model', async () => {
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
  const scored = (model: string) =>
    service.mutate<ScoreResult>('samples.score', {
      run: 'templates',
      step: 2,
      sample: sample({ prompt: '6 × 12?', response: '72' }),
      reward: { function: { path, kwargs: { model } } },
    })
  const begun =
    '<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\n6 × 12?<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n'
  expect(await scored('rm')).toMatchObject({
    score: 1,
    rewardExtraInfo: { begun, written: `${begun}72<|eot_id|>` },
  })
  expect(await scored('other')).toMatchObject({ status: 'failed', reason: 'no_server' })
})

it('changes with it; a conversation that it refuses fails with its words, its siblings are scored', async () => {
  const changed = { name: 'rm', chatTemplate: JSON.stringify(MISTRAL) }
  expect(await service.mutate<ServerDto>('servers.update', changed)).toMatchObject({
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

  const without = { name: 'rm', chatTemplate: null }
  await service.mutate('servers.update', without)
  await writes('6 × 12?\n72')
  const refusedTo = await service.mutate<ScoreResult>('samples.score', {
    run: 'templates',
    step: 3,
    sample: sample({ prompt: '6 × 12?', response: '72' }),
    reward: { function: { path: 'by-template.ts', kwargs: { model: 'rm' } } },
  })
  expect(refusedTo).toMatchObject({ status: 'failed', reason: 'function_error', score: null })
  expect(refusedTo.detail).toContain('no server of "rm" is registered with a chat template')
})
