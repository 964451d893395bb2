import { describe, expect, test } from 'vitest'
import type { EngineTarget } from './engine.ts'
import { openrlhf } from './openrlhf.ts'
import { sglang } from './sglang.ts'
import { vllm } from './vllm.ts'

const sample = { prompt: 'Q', response: 'A' }
const at = (version: string | null, basePath = ''): EngineTarget => ({
  model: 'rm',
  version,
  basePath,
})
const bodyOf = (request: { body: string | Buffer }) => JSON.parse(String(request.body))

describe('vllm', () => {
  test('a current server gets messages and use_activation:false, and never `activation` beside it', () => {
    for (const version of [null, '0.12.0', '0.20.1rc2', '1.0.0', 'dev']) {
      expect(bodyOf(vllm.buildScoreRequest(sample, at(version)))).toEqual({
        model: 'rm',
        messages: [
          { role: 'user', content: 'Q' },
          { role: 'assistant', content: 'A' },
        ],
        use_activation: false,
        add_special_tokens: false,
      })
    }
  })

  test('older servers get the words of their time', () => {
    expect(bodyOf(vllm.buildScoreRequest(sample, at('0.11.1')))).toEqual({
      model: 'rm',
      input: 'Q\nA',
      use_activation: false,
      add_special_tokens: false,
    })
    for (const version of ['0.10.1', '0.10.2', '0.11.0']) {
      const body = bodyOf(vllm.buildScoreRequest(sample, at(version)))
      expect(body).toMatchObject({ input: 'Q\nA', activation: false })
      expect(body).not.toHaveProperty('use_activation')
    }
  })

  test('the last of several probs is the score, and token counts are read', () => {
    const body = '{"data":[{"index":0,"probs":[0.25,-1.5]}],"usage":{"prompt_tokens":42}}'
    expect(vllm.parseScoreResponse(200, {}, body)).toEqual({
      ok: true,
      score: -1.5,
      promptTokens: 42,
    })
  })

  test('an address that ends in /v1 is the same server', () => {
    expect(vllm.buildScoreRequest(sample, at(null, '/v1')).path).toBe('/classify')
    expect(vllm.buildScoreRequest(sample, at(null, '/rm/v1')).path).toBe('/rm/classify')
    expect(vllm.buildScoreRequest(sample, at(null, '/rm')).path).toBe('/rm/classify')
  })

  test('without a model none is named', () => {
    const request = vllm.buildScoreRequest(sample, { model: null, version: null })
    expect(bodyOf(request)).not.toHaveProperty('model')
  })
})

describe('sglang', () => {
  test('asks /v1/embeddings with one text and reads its last number', () => {
    const request = sglang.buildScoreRequest(sample, at(null, '/v1'))
    expect(request.path).toBe('/v1/embeddings')
    expect(bodyOf(request)).toEqual({ model: 'rm', input: 'Q\nA' })
    expect(sglang.parseScoreResponse(200, {}, '{"data":[{"embedding":[1,2,-0.75]}]}')).toEqual({
      ok: true,
      score: -0.75,
    })
  })
})

describe('openrlhf', () => {
  test('posts to the given path, or /get_reward at a bare origin', () => {
    expect(openrlhf.buildScoreRequest(sample, at(null)).path).toBe('/get_reward')
    expect(openrlhf.buildScoreRequest(sample, at(null, '/my/rm')).path).toBe('/my/rm')
    expect(bodyOf(openrlhf.buildScoreRequest(sample, at(null)))).toEqual({
      query: ['Q\nA'],
      prompts: ['Q'],
      labels: [null],
    })
  })

  test('takes rewards as a list of one or a bare number, and never `scores` in their place', () => {
    expect(openrlhf.parseScoreResponse(200, {}, '{"rewards":0.7}')).toEqual({
      ok: true,
      score: 0.7,
    })
    expect(openrlhf.parseScoreResponse(200, {}, '{"rewards":[0.7],"scores":[0]}')).toEqual({
      ok: true,
      score: 0.7,
    })
    expect(openrlhf.parseScoreResponse(200, {}, '{"scores":[0.7]}')).toMatchObject({
      ok: false,
      reason: 'unparseable',
    })
  })
})
