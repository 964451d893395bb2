import { expect, test } from 'vitest'
import type { ScoreInput } from './engine.ts'
import { recordings } from './testing/recorded.ts'
import { offsetsOf } from './token-offsets.ts'
import { vllm } from './vllm.ts'

function textsOf(response: string, offsets: ReturnType<typeof offsetsOf>): string[] {
  if ('problem' in offsets) throw new Error(offsets.problem)
  const points = [...response]
  return offsets.starts.map((start, i) => points.slice(start, offsets.ends[i]).join(''))
}

const asRecorded = (text: string): ScoreInput => {
  const at = text.indexOf('\n')
  return { prompt: text.slice(0, at), response: text.slice(at + 1) }
}

const TARGET = { model: 'prm', version: '0.32.0', route: 'token' } as const

const recorded = recordings().flatMap(([, { engine, answers }]) =>
  engine === 'vllm' ? answers.filter(({ model }) => model === 'prm') : [],
)
const answerOf = (situation: string) => {
  const found = recorded.find((answer) => answer.situation === situation)
  if (found === undefined) throw new Error(`no recording of ${situation}`)
  return found
}
const aligned = (situation: string, input: ScoreInput, scores: number, plainText = false) => {
  const { status, headers, text } = answerOf(situation)
  return vllm.tokens?.parse(status, headers, text, scores, input, { ...TARGET, plainText })
}

test('aligns the recorded tokens of a conversation and of a text', () => {
  const input: ScoreInput = { prompt: 'What is 6*7?', response: '42' }
  expect(aligned('tokenize, messages', input, 21)).toEqual({
    ...{ first: 17, starts: [0, 1], ends: [1, 2] },
  })
  expect(aligned('tokenize, prompt', input, 11, true)).toEqual({
    ...{ first: 9, starts: [0, 1], ends: [1, 2] },
  })
})

test('sends the recorded requests', () => {
  const input: ScoreInput = { prompt: 'What is 6*7?', response: '42' }
  for (const [situation, plainText] of [
    ['tokenize, messages', false],
    ['tokenize, prompt', true],
  ] as const) {
    const { path, body } = vllm.tokens?.build(input, { ...TARGET, plainText }) ?? {}
    const sent = answerOf(situation).request
    expect([path, JSON.parse(String(body))]).toMatchObject([sent.path, sent.body as object])
  }
})

test('a character that spans several tokens belongs to the last of them', () => {
  const input = asRecorded('Größe 🎉🧮 日本  3.14\n\n\tend </s> ▁Ġ')
  const offsets = aligned('tokenize, characters', input, 43, true)
  expect(textsOf(input.response, offsets as never)).toEqual([
    ...['\n', '\t', 'en', 'd', ' ', '</s>', ' ', '', '', '▁', '', 'Ġ'],
  ])
})

test('reports why tokens have no offsets', () => {
  const input: ScoreInput = { prompt: 'What is 6*7?', response: '42' }
  expect(aligned('tokenize, no strings', input, 11)).toEqual({
    problem: 'the server does not return the texts of its tokens',
  })
  expect(aligned('tokenize, messages', input, 3)).toEqual({
    problem: 'the model returns 3 scores for 21 tokens',
  })
  expect(aligned('tokenize, messages', { ...input, response: '43' }, 21)).toEqual({
    problem: "the texts of the server's tokens do not contain the response",
  })
  const parse = (status: number, text: string) =>
    vllm.tokens?.parse(status, {}, text, 21, input, TARGET)
  expect(parse(404, '{"detail":"Not Found"}')).toEqual({
    problem: '/tokenize answered 404: Not Found',
  })
  expect(parse(503, 'busy')).toMatchObject({ ok: false, class: 'busy' })
  expect(parse(500, 'x')).toMatchObject({ ok: false, class: 'fault' })
})

test('reads the vocabularies of SentencePiece', () => {
  const tokens = ['<s>', '▁Q', '?', '<0x0A>', '▁', '<0xF0>', '<0x9F>', '<0x8E>', '<0x89>', '▁ok']
  expect(textsOf('🎉 ok', offsetsOf([...tokens, '</s>'], { response: '🎉 ok' }, true))).toEqual([
    ...['', '', '', '🎉', ' ok'],
  ])
})

test('does not find a response within the tags of a template', () => {
  const tokens = ['<|im_start|>', 'assistant', 'Ċ', 'end', '<|im_end|>', 'Ċ']
  const input = { response: 'end' }
  expect(offsetsOf(tokens, input, false)).toEqual({ first: 3, starts: [0], ends: [3] })
  expect(offsetsOf(tokens.toSpliced(3, 1, 'fin'), input, false)).toHaveProperty('problem')
  expect(offsetsOf(tokens, { response: ' \n' }, false)).toHaveProperty('problem')
})
