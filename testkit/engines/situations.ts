import {
  LONG_MARK,
  type RecordedAnswer,
  type RecordedModel,
} from '../../server/engines/testing/recorded.ts'
import type { Release } from './cache.ts'

export type Situation = Pick<RecordedAnswer, 'situation' | 'request'>

/** The recorded models of each engine. `kind`: how llama.cpp serves the model. */
export const RECORDED_MODELS: Record<
  Release['engine'],
  Record<string, RecordedModel & { kind?: 'rank' | 'chat' }>
> = {
  vllm: {
    rm1: { serves: 'classify', labels: 1, hasChatTemplate: true, maxModelLen: 1024 },
    // vLLM 0.11.0 cannot load this model.
    prm: { serves: 'token', labels: 1, hasChatTemplate: true, maxModelLen: 1024 },
    cross: { serves: 'pair', labels: 1, hasChatTemplate: false, maxModelLen: 512 },
    yes: { serves: 'generate', labels: 0, hasChatTemplate: true, maxModelLen: 1024 },
    rm2: { serves: 'classify', labels: 2, hasChatTemplate: true, maxModelLen: 1024 },
    rm1raw: { serves: 'classify', labels: 1, hasChatTemplate: false, maxModelLen: 1024 },
    emb: { serves: 'embed', labels: 0, hasChatTemplate: true, maxModelLen: 1024 },
  },
  llamacpp: {
    cross: { serves: 'pair', labels: 1, hasChatTemplate: false, maxModelLen: 512, kind: 'rank' },
    rank1: { serves: 'pair', labels: 1, hasChatTemplate: true, maxModelLen: 1024, kind: 'rank' },
    rank2: { serves: 'pair', labels: 2, hasChatTemplate: true, maxModelLen: 1024, kind: 'rank' },
    yes: { serves: 'generate', labels: 0, hasChatTemplate: true, maxModelLen: 1024, kind: 'chat' },
  },
}

const MESSAGES = [
  { role: 'user', content: 'What is 6*7?' },
  { role: 'assistant', content: '42' },
]
const QUESTION = [{ role: 'user', content: 'Is 42 the answer? Yes or No.' }]
const LONG_MESSAGES = [
  { role: 'user', content: LONG_MARK },
  { role: 'assistant', content: '42' },
]
const INPUT = 'What is 6*7?\n42'
/**
 * Characters of two to four bytes (tokens may split a character), digits, spaces and a special token's name.
 */
const CHARACTERS = 'Größe 🎉🧮 日本  3.14\n\n\tend </s> ▁Ġ'

function get(situation: string, path: string): Situation {
  return { situation, request: { method: 'GET', path } }
}

function post(situation: string, path: string, body: unknown): Situation {
  return { situation, request: { method: 'POST', path, body } }
}

export function vllmSituations(model: string, { serves }: RecordedModel): Situation[] {
  const raw = { use_activation: false, activation: false }
  const whole = (situation: string, path: string, more: object) => [
    post(`${situation}, input`, path, { model, input: INPUT, ...more }),
    post(`${situation}, messages`, path, { model, messages: MESSAGES, ...more }),
  ]
  const pair = { text_1: 'q', text_2: 'doc' }
  const common = [
    get('version', '/version'),
    get('models', '/v1/models'),
    get('health', '/health'),
    get('load metrics', '/metrics'),
    ...[
      '/classify',
      '/pooling',
      '/score',
      '/rerank',
      '/v1/embeddings',
      '/v1/chat/completions',
    ].flatMap((path) => [get(`GET ${path}`, path), post(`empty object to ${path}`, path, {})]),
    ...whole('classify', '/classify', raw),
    ...whole('pooling, no task', '/pooling', raw),
    ...whole('pooling, token_classify', '/pooling', { task: 'token_classify', ...raw }),
    post('score, text_1', '/score', { model, ...pair, ...raw }),
    post('score, queries', '/score', { model, queries: 'q', documents: 'doc', ...raw }),
    post('rerank', '/rerank', { model, query: 'q', documents: ['a', 'b'], ...raw }),
    post('chat', '/v1/chat/completions', { model, messages: QUESTION, max_tokens: 4 }),
  ]
  if (serves === 'generate') return [...common, ...chatSituations(model)]
  const path = serves === 'token' ? '/pooling' : serves === 'pair' ? '/score' : '/classify'
  if (serves === 'pair') {
    return [
      ...common,
      post('wrong model', path, { model: 'nope', ...pair }),
      post('too long, pair', path, { model, text_1: 'q', text_2: LONG_MARK }),
      post('empty pair', path, { model, text_1: '', text_2: '' }),
    ]
  }
  return [
    ...common,
    ...(serves === 'token' ? tokenSituations(model) : []),
    post('wrong model', path, { model: 'nope', input: INPUT }),
    post('wrong model to /pooling', '/pooling', { model: 'nope', input: INPUT }),
    post('no model', path, { input: INPUT, ...raw }),
    post('no activation word', path, { model, input: INPUT }),
    post('normalize', path, { model, input: INPUT, normalize: false }),
    post('list', path, { model, input: ['a', 'b c', 'd e f'], ...raw }),
    post('token ids', path, { model, input: [5, 6, 7], ...raw }),
    post('lists of token ids', path, { model, input: [[5, 6, 7], [8]], ...raw }),
    post('empty text', path, { model, input: '', ...raw }),
    post('empty text, no special tokens', path, {
      ...{ model, input: '', ...raw },
      add_special_tokens: false,
    }),
    post('empty text in a list', path, {
      ...{ model, input: ['a', '', 'b'], ...raw },
      add_special_tokens: false,
    }),
    post('too long, input', path, { model, input: LONG_MARK, ...raw }),
    post('too long, messages', path, { model, messages: LONG_MESSAGES, ...raw }),
    post('too long, one of a list', path, { model, input: ['a', LONG_MARK], ...raw }),
    post('too long, pair', '/score', { model, text_1: 'q', text_2: LONG_MARK, ...raw }),
    post('array as body', path, [1]),
    { situation: 'bad JSON', request: { method: 'POST', path, raw: '{nope' } },
    {
      situation: 'wrong content type',
      request: { method: 'POST', path, type: 'text/plain', body: { input: 'a' } },
    },
  ]
}

function tokenSituations(model: string): Situation[] {
  const raw = { task: 'token_classify', use_activation: false, activation: false }
  const strings = { return_token_strs: true }
  const chat = { messages: MESSAGES, add_generation_prompt: false }
  return [
    post('tokenize, prompt', '/tokenize', { model, prompt: INPUT, ...strings }),
    post('tokenize, no special tokens', '/tokenize', {
      ...{ model, prompt: INPUT, ...strings },
      add_special_tokens: false,
    }),
    post('tokenize, messages', '/tokenize', { model, ...chat, ...strings }),
    post('tokenize, no strings', '/tokenize', { model, prompt: INPUT }),
    post('tokenize, characters', '/tokenize', { model, prompt: CHARACTERS, ...strings }),
    post('pooling, characters', '/pooling', { model, input: CHARACTERS, ...raw }),
  ]
}

function chatSituations(model: string): Situation[] {
  const path = '/v1/chat/completions'
  const chat = (situation: string, more: object) =>
    post(situation, path, { model, messages: QUESTION, temperature: 0, max_tokens: 4, ...more })
  return [
    chat('chat, wrong model', { model: 'nope' }),
    chat('chat, log-probabilities', { logprobs: true, top_logprobs: 5 }),
    chat('chat, cut off', { max_tokens: 1 }),
    chat('chat, max_tokens of the whole context', { max_tokens: 1024 }),
    chat('chat, too long', { messages: [{ role: 'user', content: LONG_MARK }] }),
    chat('chat, JSON schema', {
      max_tokens: 32,
      response_format: {
        type: 'json_schema',
        json_schema: {
          name: 'verdict',
          schema: {
            type: 'object',
            properties: { score: { type: 'integer', minimum: 1, maximum: 5 } },
            required: ['score'],
            additionalProperties: false,
          },
        },
      },
    }),
  ]
}

/** Requests that are sent to vLLM in this order, immediately after its engine was killed. */
export function deadVllmSituations(model: string): Situation[] {
  const raw = { use_activation: false, activation: false }
  const dead = (path: string, body: object) =>
    post(`engine dead, ${path}`, path, { model, ...body })
  return [
    dead('/classify', { input: INPUT, ...raw }),
    dead('/pooling', { input: INPUT, ...raw }),
    dead('/score', { text_1: 'q', text_2: 'doc', ...raw }),
    get('engine dead, health', '/health'),
  ]
}

export function llamacppSituations(model: string, { serves }: RecordedModel): Situation[] {
  const rerank = (situation: string, body: unknown) => post(situation, '/rerank', body)
  const common = [
    get('models', '/v1/models'),
    get('health', '/health'),
    get('properties', '/props'),
    get('idle slots', '/slots'),
    get('load metrics', '/metrics'),
    get('GET /rerank', '/rerank'),
    rerank('rerank', { model, query: 'q', documents: ['doc'] }),
    post('embeddings', '/v1/embeddings', { model, input: INPUT }),
    post('chat', '/v1/chat/completions', { model, messages: QUESTION, max_tokens: 4 }),
  ]
  if (serves === 'generate') return [...common, ...chatSituations(model)]
  return [
    ...common,
    rerank('empty object', {}),
    rerank('no documents', { query: 'q' }),
    rerank('empty documents', { query: 'q', documents: [] }),
    rerank('wrong model', { model: 'nope', query: 'q', documents: ['doc'] }),
    rerank('empty texts', { query: '', documents: [''] }),
    rerank('two documents', { query: 'q', documents: ['a', 'b'] }),
    rerank('texts', { query: 'q', texts: ['a', 'b'] }),
    rerank('too long', { query: 'q', documents: [LONG_MARK] }),
    { situation: 'bad JSON', request: { method: 'POST', path: '/rerank', raw: '{nope' } },
  ]
}
