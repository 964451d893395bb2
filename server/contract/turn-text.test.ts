import { expect, test } from 'vitest'
import { toolPieces, toolResultText, turnText } from './turn-text.ts'

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

test('a text splits into tool blocks', () => {
  const text = `${turnText({ content: 'Let me see.', tool_calls: [call] })}\n${toolResultText('4 "2"', 'f"\\', 'c1')}\nIt is 42.`
  expect(toolPieces(text)).toEqual([
    { kind: 'text', text: 'Let me see.' },
    { kind: 'call', name: 'f', arguments: '{"a":1}', id: 'c1' },
    { kind: 'result', name: 'f"\\', id: 'c1', text: '4 "2"' },
    { kind: 'text', text: 'It is 42.' },
  ])
})

test('invalid tool blocks stay text', () => {
  for (const text of [
    ...['', 'plain', '<tool_call>\nnot json\n</tool_call>', '<tool_call>{"a":1}</tool_call>'],
    ...['<tool_call>\n{"name": "f", "odd": 1}\n</tool_call>', '<tool_call>\n{"name": "f"'],
    '<tool_call>{"name": "f", "arguments": 9007199254740993}</tool_call>',
  ]) {
    expect(toolPieces(text)).toEqual([{ kind: 'text', text }])
  }
})
