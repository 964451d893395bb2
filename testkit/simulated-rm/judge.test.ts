import { afterEach, describe, expect, test } from 'vitest'
import { buildChatRequest, parseChatResponse } from '../../server/engines/chat.ts'
import type { EngineName } from '../../server/engines/engine.ts'
import { probeServer } from '../../server/engines/probe.ts'
import type { DialectName, ServerOptionsInput } from './options.ts'
import { SimulatedServer } from './server.ts'
import { ask, askJson } from './testing/ask.ts'

const started: SimulatedServer[] = []
async function start(options: ServerOptionsInput = {}): Promise<SimulatedServer> {
  const server = await SimulatedServer.start({ healthDelayMs: 0, ...options })
  started.push(server)
  return server
}
afterEach(() => Promise.all(started.splice(0).map((server) => server.close())))

const JUDGES: [DialectName, EngineName][] = [
  ['vllm', 'vllm'],
  ['sglang', 'sglang'],
  ['llamacpp', 'llamacpp'],
  ['chat', 'openai'],
]

describe.each(JUDGES)('a judge with dialect %s, called by engine %s', (dialect, name) => {
  const chat = { messages: [{ role: 'user', content: 'Rate this: 1 + 1 = 2' }] }
  const judge = async (server: SimulatedServer, more: object = {}) => {
    const { path, body } = buildChatRequest(
      name,
      { ...chat, ...more },
      { model: 'simulated-rm', version: null, basePath: '' },
    )
    const answer = await ask(server, path, JSON.parse(String(body)))
    return parseChatResponse(answer.status, answer.headers, answer.text)
  }

  test('rates by the text alone, with log-probabilities on request', async () => {
    const server = await start({ dialect, serves: 'generate' })
    const first = await judge(server, { topLogprobs: 3 })
    expect(first).toMatchObject({ ok: true, finishReason: 'stop' })
    if (!first.ok) return
    expect(first.content).toMatch(/Rating: \[\[([1-9]|10)\]\]$/)
    expect(first.logprobs).toHaveLength(first.completionTokens ?? -1)
    for (const token of first.logprobs ?? []) expect(token.top).toHaveLength(3)
    expect(await judge(server)).toMatchObject({ content: first.content })
    const found = await probeServer({
      url: server.url,
      engine: name,
      apiKey: null,
      timeoutMs: 5000,
      kind: 'generative',
    })
    expect(found).toMatchObject({ ok: true, kind: 'generative' })
  })

  test('respects a schema, a stop text and a token limit', async () => {
    const server = await start({ dialect, serves: 'generate' })
    const schema = {
      type: 'object',
      properties: { score: { type: 'integer', minimum: 0, maximum: 5 }, why: { type: 'string' } },
    }
    const formed = await judge(server, { jsonSchema: { name: 'verdict', schema } })
    expect(formed.ok && JSON.parse(formed.content)).toEqual({
      score: expect.toSatisfy((n: number) => n >= 0 && n <= 5),
      why: 'simulated',
    })
    const stopped = await judge(server, { stop: ['simulated'] })
    expect(stopped.ok && stopped.content).toBe('This reply is ')
    expect(await judge(server, { maxTokens: 5 })).toMatchObject({ ok: true, truncated: true })
  })

  test('an aborted reply, an empty reply, an error and a text over the limit are failures', async () => {
    const server = await start({ dialect, serves: 'generate', maxModelLen: 8192 })
    for (const [faults, failureClass] of [
      [{ abort: 1 }, 'fault'],
      [{ wrongLength: 1 }, 'corrupt'],
      [{ error500: 1 }, 'fault'],
    ] as const) {
      server.control({ faults: null })
      server.control({ faults })
      expect(await judge(server)).toMatchObject({ ok: false, class: failureClass })
    }
    const long = { messages: [{ role: 'user', content: 'word '.repeat(10_000) }] }
    server.control({ faults: null })
    expect(await judge(server, long)).toMatchObject({ ok: false, reason: 'context_exceeded' })
  })

  test('streams token by token, with usage at the end', async () => {
    const server = await start({ dialect, serves: 'generate', tokenDelayMs: 1 })
    const body = { ...chat, model: 'simulated-rm' }
    const whole = await askJson<{ choices: { message: { content: string } }[] }>(
      server,
      '/v1/chat/completions',
      body,
    )
    const answer = await ask(server, '/v1/chat/completions', {
      ...body,
      stream: true,
      stream_options: { include_usage: true },
    })
    expect(answer.headers['content-type']).toMatch('text/event-stream')
    const lines = answer.text
      .trim()
      .split('\n\n')
      .map((line) => line.replace('data: ', ''))
    expect(lines.at(-1)).toBe('[DONE]')
    const chunks = lines.slice(0, -1).map((line) => JSON.parse(line))
    expect(chunks[0].choices[0].delta).toEqual({ role: 'assistant', content: '' })
    const text = chunks.map((chunk) => chunk.choices[0]?.delta.content ?? '').join('')
    expect(text).toBe(whole.choices[0]?.message.content)
    expect(chunks.at(-2).choices[0].finish_reason).toBe('stop')
    expect(chunks.at(-1).usage.completion_tokens).toBe(chunks.length - 3)
  })
})
