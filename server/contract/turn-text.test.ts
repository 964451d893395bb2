import { expect, test } from 'vitest'
import { failedToolCalls, toolResultText, turnText } from './turn-text.ts'

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

test('failed tool calls are those whose arguments are not JSON, or whose result reports an error', () => {
  const called = (args: string) => ({
    role: 'assistant',
    tool_calls: [{ ...call, function: { name: 'f', arguments: args } }],
  })
  const result = (content: string, more: object = {}) => ({ role: 'tool', content, ...more })
  const failures = [
    called('{"a": '),
    result('', { is_error: true }),
    result('no such file', { isError: true }),
    result('timed out', { status: 'error' }),
    result('{"error": "division by zero"}'),
    result(' {"error": {"code": 404}, "id": 1}\n'),
    result(`{'error': 'division by zero'}`),
    result(`{'error': "name 'x' is not defined"}`),
    { role: 'user', content: [{ type: 'tool_result', is_error: true, content: 'no such file' }] },
  ]
  const others = [
    called(''),
    called('{"error": "as an argument"}'),
    result('42'),
    result('Error is a word of this page.', { is_error: false, status: 'success' }),
    result('{"error": null, "result": 42}'),
    result('{"error": 0.02}'),
    result(`{'error': None}`),
    { role: 'assistant', content: '{"error": "The model writes this."}' },
  ]
  for (const turn of failures) expect(failedToolCalls([turn]), JSON.stringify(turn)).toBe(1)
  for (const turn of others) expect(failedToolCalls([turn]), JSON.stringify(turn)).toBe(0)
  expect(failedToolCalls([...failures, ...others])).toBe(failures.length)
  expect(failedToolCalls('{"error": "a text"}')).toBe(null)
})
