import { expect, test } from 'vitest'
import { encodeTexts, firstLines, type GivenTexts } from './stored-texts.ts'

/** Cuts each text to `maxChars` characters, as the SQL query does. A chat prompt starts at the user's message. */
function linesOf(given: GivenTexts, maxChars = 1_500) {
  const { prompt, response, encoding } = encodeTexts(given)
  const at = typeof given.prompt === 'string' ? 0 : Math.max(0, prompt.indexOf('"role":"user"'))
  return firstLines({
    prompt: prompt.slice(at, at + maxChars),
    response: response.slice(0, maxChars),
    encoding,
  })
}

test('the first line with text is read, without the reasoning tag', () => {
  expect(linesOf({ prompt: '\n  One \nTwo', response: '<think>\nHm.\n</think>' })).toEqual({
    prompt: 'One',
    response: 'Hm.',
  })
  expect(linesOf({ prompt: '', response: '```python\nx = 1\n```' }).response).toBe('x = 1')
  expect(linesOf({ prompt: '', response: ' \n ' })).toEqual({ prompt: '', response: '' })
  expect(linesOf({ prompt: 'a'.repeat(300), response: '😀'.repeat(200) }).prompt).toHaveLength(200)
  expect(linesOf({ prompt: '', response: `a${'😀'.repeat(200)}` }).response.isWellFormed()).toBe(
    true,
  )
})

test('the first line of chat messages is that of the user’s question', () => {
  const system = { role: 'system', content: 'Be "brief".' }
  const prompt = [system, { role: 'user', content: 'What is\t"6 * 7"?\nSay it.' }]
  expect(linesOf({ prompt, response: 'x' }).prompt).toBe('What is\t"6 * 7"?')
  expect(linesOf({ prompt: [system], response: 'x' }).prompt).toBe('Be "brief".')
  expect(linesOf({ prompt: [], response: 'x' }).prompt).toBe('')
})

test('texts stored as JSON are decoded, even if they are cut within an escape', () => {
  expect(linesOf({ prompt: 'a \u0000 b\nc', response: 'd \ud800 e' })).toEqual({
    prompt: 'a \u0000 b',
    response: 'd \ud800 e',
  })
  for (let chars = 2; chars < 14; chars++) {
    const { response } = linesOf({ prompt: '', response: '\u0000\u0001\u0002' }, chars)
    expect('\u0000\u0001\u0002'.startsWith(response)).toBe(true)
  }
})
