import { describe, expect, it } from 'vitest'
import { type BodyFacts, readBodyFacts } from './body-facts.ts'

function byParser(text: string): BodyFacts {
  const value = JSON.parse(text) as Record<string, unknown>
  const most = [...Object.keys(value)].reduce<number | null>(
    (found, key) =>
      (key === 'max_tokens' || key === 'max_completion_tokens') && typeof value[key] === 'number'
        ? (value[key] as number)
        : found,
    null,
  )
  return {
    model: typeof value.model === 'string' ? value.model : null,
    stream: value.stream === true,
    maxTokens: most,
  }
}

const read = (text: string) => readBodyFacts(Buffer.from(text))
const long = 'a \\"quoted\\" \\\\ word '.repeat(40)

const valid: [what: string, text: string][] = [
  ['a chat', '{"model":"rm","messages":[{"role":"user","content":"hi"}],"stream":true}'],
  ['space everywhere', ' \n{ "stream" : true ,\t"model"\r\n: "rm" } '],
  ['the model last, after a long text', `{"input":"${long}","model":"judge/7b"}`],
  ['backslashes before a quote', String.raw`{"input":"x\\","model":"m\"\\"}`],
  [
    'a backslash at the end of the bytewise search',
    `{"input":"${'x'.repeat(47)}\\"${'y'.repeat(60)}\\\\","model":"m"}`,
  ],
  ['a model inside other values', '{"a":{"model":"no"},"b":[{"model":"no"}],"c":"\\"model\\":1"}'],
  ['two models: the last counts', '{"model":"first","model":"second"}'],
  ['two models, the last not a string', '{"model":"first","model":null}'],
  ['an escaped key', '{"mod\\u0065l":"rm"}'],
  ['letters beyond ASCII', '{"model":"模型-é-\\ud83d\\ude00","q":"naïve"}'],
  ['numbers, null, booleans', '{"n":-1.5e3,"z":null,"stream":false,"max_tokens":12,"model":"m"}'],
  ['the newer key for tokens', '{"max_completion_tokens":7,"model":"m"}'],
  ['empty containers', '{"a":{},"b":[],"c":"","model":"m"}'],
  ['token ids', `{"input":[[${Array.from({ length: 500 }, (_, i) => i).join(',')}]],"model":"m"}`],
  ['stream as a string', '{"stream":"true","model":"m"}'],
  ['an empty object', '{}'],
]

it.each(valid)('reads the same as a parser: %s', (_, text) => {
  expect(read(text)).toEqual(byParser(text))
})

it('reads the same as a parser in generated documents', () => {
  let seed = 7
  const draw = (n: number) => {
    seed = (seed * 1_103_515_245 + 12_345) % 2_147_483_648
    return seed % n
  }
  const keys = ['model', 'stream', 'max_tokens', 'input', 'mödel', 'a"b\\', 'messages']
  const words = ['', 'rm', '"', '\\', '\\"model\\":', '{[', ']}', 'é'.repeat(30), 'x"'.repeat(40)]
  const value = (depth: number): unknown => {
    switch (draw(depth > 3 ? 4 : 6)) {
      case 0:
        return words[draw(words.length)]
      case 1:
        return draw(1000)
      case 2:
        return draw(2) === 0
      case 3:
        return null
      case 4:
        return Array.from({ length: draw(4) }, () => value(depth + 1))
      default:
        return Object.fromEntries(
          Array.from({ length: draw(5) }, () => [keys[draw(keys.length)], value(depth + 1)]),
        )
    }
  }
  for (let i = 0; i < 3_000; i++) {
    const document = Object.fromEntries(
      Array.from({ length: draw(7) }, () => [keys[draw(keys.length)], value(0)]),
    )
    const text = JSON.stringify(document, null, draw(3))
    expect(read(text), text).toEqual(byParser(text))
  }
})

describe('a body that is not JSON', () => {
  it.each([
    ['nothing', '', null],
    ['a list', '[{"model":"no"}]', null],
    ['a text', '"model"', null],
    ['cut off after the model', '{"model":"rm","input":"abc', 'rm'],
    ['cut off within the model', '{"model":"r', null],
    ['cut off in an escape', '{"model":"rm","x":"a\\', 'rm'],
    ['no colon', '{"model" "rm"}', null],
    ['a model that does not parse', '{"model":"\\x","stream":true}', null],
  ])('%s: gives the fields before the error', (_, text, model) => {
    expect(read(text).model).toBe(model)
  })
})
