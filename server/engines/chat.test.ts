import { describe, expect, test } from 'vitest'
import { buildChatRequest, parseChatResponse } from './chat.ts'
import type { EngineName } from './engine.ts'

const target = { model: 'judge', version: null, basePath: '' }
const chat = { messages: [{ role: 'user', content: 'Which is better?' }] }
const bodyOf = (engine: EngineName, over: object = {}) =>
  JSON.parse(String(buildChatRequest(engine, { ...chat, ...over }, target).body))

const completion = (choice: object, rest: object = {}) =>
  JSON.stringify({
    id: 'c',
    object: 'chat.completion',
    choices: [{ index: 0, ...choice }],
    ...rest,
  })
const replied = (content: unknown, over: object = {}) =>
  completion({ message: { role: 'assistant', content }, finish_reason: 'stop', ...over })
const read = (body: string) => parseChatResponse(200, {}, body)

describe('the request', () => {
  test('contains only the given fields', () => {
    expect(bodyOf('vllm')).toEqual({ model: 'judge', messages: chat.messages, temperature: 0 })
  })

  test('uses the engine’s field names', () => {
    const everything = {
      temperature: 0.7,
      topP: 0.9,
      maxTokens: 512,
      stop: ['\n\n'],
      seed: 7,
      topLogprobs: 5,
      jsonSchema: { name: 'verdict', schema: { type: 'object' } },
      chatTemplateKwargs: { enable_thinking: false },
    }
    const common = {
      model: 'judge',
      messages: chat.messages,
      temperature: 0.7,
      top_p: 0.9,
      stop: ['\n\n'],
      seed: 7,
      logprobs: true,
      top_logprobs: 5,
      response_format: {
        type: 'json_schema',
        json_schema: { name: 'verdict', schema: { type: 'object' }, strict: true },
      },
    }
    for (const engine of ['vllm', 'sglang', 'llamacpp'] as const) {
      expect(bodyOf(engine, everything)).toEqual({
        ...common,
        max_tokens: 512,
        chat_template_kwargs: { enable_thinking: false },
      })
    }
    expect(bodyOf('openai', everything)).toEqual({ ...common, max_completion_tokens: 512 })
  })

  test('requests the chosen token’s logprob without alternatives', () => {
    expect(bodyOf('vllm', { topLogprobs: 0 })).toMatchObject({ logprobs: true, top_logprobs: 0 })
  })

  test('has the same path for URLs with /v1, and contains lone surrogates as U+FFFD', () => {
    for (const basePath of ['', '/v1']) {
      expect(buildChatRequest('openai', chat, { ...target, basePath }).path).toBe(
        '/v1/chat/completions',
      )
    }
    const odd = { messages: [{ role: 'user', content: 'x\ud800y' }] }
    const body = String(buildChatRequest('vllm', odd, target).body)
    expect(JSON.parse(body).messages[0].content).toBe('x\ufffdy')
  })
})

describe('the reply', () => {
  test('is the content with its reasoning, usage and logprobs', () => {
    const top = [
      { token: 'A', logprob: -0.1, bytes: [65] },
      { token: 'B', logprob: -2.5, bytes: [66] },
    ]
    const body = completion(
      {
        message: { role: 'assistant', content: 'A', reasoning: 'because' },
        finish_reason: 'stop',
        logprobs: { content: [{ token: 'A', logprob: -0.1, top_logprobs: top }] },
      },
      { usage: { prompt_tokens: 20, completion_tokens: 1 } },
    )
    expect(read(body)).toEqual({
      ok: true,
      content: 'A',
      reasoning: 'because',
      finishReason: 'stop',
      truncated: false,
      promptTokens: 20,
      completionTokens: 1,
      logprobs: [
        {
          token: 'A',
          logprob: -0.1,
          top: [
            { token: 'A', logprob: -0.1 },
            { token: 'B', logprob: -2.5 },
          ],
        },
      ],
    })
  })

  test('needs only content and a finish reason', () => {
    expect(read(replied('8/10'))).toEqual({
      ok: true,
      content: '8/10',
      reasoning: null,
      finishReason: 'stop',
      truncated: false,
      promptTokens: null,
      completionTokens: null,
      logprobs: null,
    })
    expect(read(replied(''))).toMatchObject({ ok: true, content: '' })
    expect(
      read(
        replied([
          { type: 'text', text: '8' },
          { type: 'text', text: '/10' },
        ]),
      ),
    ).toMatchObject({ content: '8/10' })
  })

  test('has its reasoning from the older field too', () => {
    const message = { role: 'assistant', content: '8', reasoning_content: 'hm' }
    expect(read(completion({ message, finish_reason: 'stop' }))).toMatchObject({ reasoning: 'hm' })
  })

  test('has no logprobs if they are not numbers', () => {
    const logprobs = { content: [{ token: 'A', logprob: null }] }
    expect(read(replied('A', { logprobs }))).toMatchObject({ ok: true, logprobs: null })
  })

  test.each([
    ['abort', 'fault', 'transport'],
    ['error', 'fault', 'transport'],
    ['content_filter', 'client', 'rejected'],
    ['tool_calls', 'client', 'unparseable'],
    ['function_call', 'client', 'unparseable'],
    ['something_new', 'corrupt', 'unparseable'],
    [{ type: 'abort', message: 'Aborted' }, 'fault', 'transport'],
    [null, 'corrupt', 'unparseable'],
    [undefined, 'corrupt', 'unparseable'],
  ])('that ended with %j is a failure, never a reply', (finish_reason, failureClass, reason) => {
    expect(read(replied('Score: 9', { finish_reason }))).toMatchObject({
      ok: false,
      class: failureClass,
      reason,
    })
  })

  test.each([
    ['with its text', 'Yes, because', 'Yes, because'],
    ['before its reply began', null, ''],
  ])('cut off at the token limit is a truncated reply: %s', (_what, said, content) => {
    const message = { role: 'assistant', content: said, reasoning: 'hm' }
    expect(read(completion({ message, finish_reason: 'length' }))).toMatchObject({
      ok: true,
      content,
      truncated: true,
    })
    expect(read(replied('8'))).toMatchObject({ truncated: false })
  })

  test.each([
    ['only reasoning', { content: null, reasoning: 'hm' }, 'unparseable'],
    ['a refusal', { content: null, refusal: 'I cannot judge that.' }, 'rejected'],
  ])('of %s is a failure', (_what, message, reason) => {
    expect(read(completion({ message, finish_reason: 'stop' }))).toMatchObject({
      ok: false,
      class: 'client',
      reason,
    })
  })

  test.each([
    ['no choices', '{"choices":[]}'],
    ['two choices', '{"choices":[{"message":{}},{"message":{}}]}'],
    ['no message', completion({ finish_reason: 'stop' })],
    ['another object', '{"hello":"world"}'],
    ['a list', '[]'],
    ['null', 'null'],
    ['an empty body', ''],
    ['half a body', replied('8').slice(0, -5)],
  ])('%s is corrupt', (_what, body) => {
    expect(read(body)).toMatchObject({ ok: false, class: 'corrupt', reason: 'unparseable' })
  })

  test('an error with status 200 is a fault of the server', () => {
    const body = '{"error":{"message":"upstream died","code":502}}'
    expect(read(body)).toMatchObject({ class: 'fault', detail: expect.stringContaining('died') })
  })

  test('other statuses are classified as for scores', () => {
    const tooLong = '{"error":{"code":"context_length_exceeded","message":"too long"}}'
    expect(parseChatResponse(400, {}, tooLong)).toMatchObject({ reason: 'context_exceeded' })
    expect(parseChatResponse(429, { 'retry-after': '1' }, '')).toMatchObject({
      class: 'busy',
      retryAfterMs: 1000,
    })
    expect(parseChatResponse(500, {}, '')).toMatchObject({ class: 'fault' })
    expect(parseChatResponse(401, {}, '{}')).toMatchObject({ class: 'fault', broken: true })
    const page = '<!doctype html><title>Sign in</title>'
    expect(parseChatResponse(200, {}, page)).toMatchObject({ class: 'fault', broken: true })
  })

  test.each([
    [
      "'max_tokens' or 'max_completion_tokens' is too large: 1024. This model's maximum context length is 1024 tokens and your request has 115 input tokens (1024 > 1024 - 115).",
      909,
    ],
    [
      "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens (3000 in the messages, 2000 in the completion). Please reduce the length of the messages or completion.",
      1_096,
    ],
    [
      "Requested token count exceeds the model's maximum context length of 4096 tokens. You requested a total of 5000 tokens: 3000 tokens from the input messages and 2000 tokens for the completion.",
      1_096,
    ],
  ])('a refused maxTokens comes with the tokens left for the reply: %s', (message, left) => {
    const refused = parseChatResponse(400, {}, JSON.stringify({ error: { message } }))
    expect(refused).toMatchObject({ class: 'client', reason: 'rejected', fitMaxTokens: left })
    expect((refused as { detail: string }).detail).toContain('maxTokens')
  })

  test('a conversation that is too long is context_exceeded, for any length of reply', () => {
    for (const message of [
      "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens (5000 in the messages, 0 in the completion).",
      "'max_tokens' or 'max_completion_tokens' is too large: 16. This model's maximum context length is 1024 tokens and your request has 1115 input tokens (16 > 1024 - 1115).",
    ]) {
      const refused = parseChatResponse(400, {}, JSON.stringify({ error: { message } }))
      expect(refused).toMatchObject({ class: 'client', reason: 'context_exceeded' })
      expect(refused).not.toHaveProperty('fitMaxTokens')
    }
  })
})
