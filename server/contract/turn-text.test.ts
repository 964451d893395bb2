import { expect, test } from 'vitest'
import { toolResultText, turnText } from './turn-text.ts'

const call = { id: 'c1', type: 'function', function: { name: 'f', arguments: '{"a": 1}' } }

test('the text of a turn has its content and tool calls', () => {
  expect(turnText({ content: ' as it is \n' })).toBe(' as it is \n')
  expect(turnText({ content: null })).toBe('')
  expect(turnText({ content: null, tool_calls: [call] })).toBe(
    '<tool_call>\n{"name": "f", "arguments": {"a": 1}, "id": "c1"}\n</tool_call>',
  )
  expect(
    turnText({
      ...{ content: 'So:', reasoning_content: 'Hm.' },
      function_call: { name: 'g', arguments: 'no json' },
    }),
  ).toBe(
    '<think>\nHm.\n</think>\nSo:\n<tool_call>\n{"name": "g", "arguments": "no json"}\n</tool_call>',
  )
})

test('the text of a tool result has its name and call', () => {
  expect(toolResultText('4 "2"', 'f"\\', 'c1')).toBe(
    '<tool_response name="f\\"\\\\" tool_call_id="c1">\n4 "2"\n</tool_response>',
  )
  expect(toolResultText('42', null, null)).toBe('<tool_response>\n42\n</tool_response>')
})
