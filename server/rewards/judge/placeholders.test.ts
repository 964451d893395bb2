import { expect, test } from 'vitest'
import { placeholderValue } from './placeholders.ts'

test('a judge reads the tool calls of a prompt', () => {
  const call = { function: { name: 'mul', arguments: '{"a":6}' } }
  const turn = { role: 'assistant', content: '', tool_calls: [call] }
  const texts = { prompt: [{ role: 'user', content: 'Q' }, turn], groundTruth: null, extraInfo: {} }
  expect(placeholderValue('prompt', { ...texts, response: 'r' })).toBe(
    '[user]\nQ\n\n[assistant]\n<tool_call>\n{"name": "mul", "arguments": {"a":6}}\n</tool_call>',
  )
})
