import { expect, test } from 'vitest'
import { messagesOf, responseText } from './response-items.ts'

const call = { type: 'function_call', name: 'f', arguments: '{"a":1}', call_id: 'c1' }
const result = { type: 'function_call_output', call_id: 'c1', output: '42' }
const said = (text: string) => ({
  ...{ type: 'message', role: 'assistant' },
  content: [{ type: 'output_text', text }],
})

test('all output items are kept, in order', () => {
  const thought = { type: 'reasoning', summary: [{ type: 'summary_text', text: 'Hm.' }] }
  expect(responseText([said('#### 72')], 'output')).toBe('#### 72')
  expect(responseText([thought, call, result, said('It is 42.')], 'output')).toBe(
    '<think>\nHm.\n</think>\n' +
      '<tool_call>\n{"name": "f", "arguments": {"a":1}, "id": "c1"}\n</tool_call>\n' +
      '<tool_response tool_call_id="c1">\n42\n</tool_response>\nIt is 42.',
  )
  expect(messagesOf([{ role: 'user', content: 'Q' }, call, result], 'input')).toEqual([
    { role: 'user', content: 'Q' },
    {
      ...{ role: 'assistant', content: null },
      tool_calls: [{ id: 'c1', type: 'function', function: { name: 'f', arguments: '{"a":1}' } }],
    },
    { role: 'tool', content: '42', tool_call_id: 'c1' },
  ])
})

test('items that cannot be written as text are refused with their type and position', () => {
  const image = { type: 'message', role: 'user', content: [{ type: 'input_image' }] }
  expect(() => messagesOf([image], 'input')).toThrow(
    'input[0].content[0] is a part of type "input_image"',
  )
  expect(() => responseText([said('a'), { type: 'web_search_call' }], 'output')).toThrow(
    'output[1] is of type "web_search_call"',
  )
  const long = { type: 'x'.repeat(100_000) }
  const parts = { type: 'message', role: 'user', content: [long] }
  for (const item of [long, parts]) expect(() => messagesOf([item], '')).toThrow(/.{0,60}"x{60}"/)
})
