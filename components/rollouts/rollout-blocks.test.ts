import { expect, test } from 'vitest'
import { toolResultText, turnText } from '../../server/contract/turn-text.ts'
import { innerBlocks, rolloutBlocks } from './rollout-blocks.ts'

/** Each block as its kind and its text without tags. */
function read(text: string, isResponse = true) {
  return rolloutBlocks(text, isResponse).map((block) => [
    block.kind,
    text.slice(block.body.start, block.body.end).trim(),
  ])
}

test('splits reasoning, tool calls, results and answers', () => {
  const call = { id: 'c1', type: 'function', function: { name: 'f', arguments: '{"a": 1}' } }
  const text = `<think>\nHm.\n</think>\n${turnText({ content: 'Let me see.', tool_calls: [call] })}\n${toolResultText('4 "2"', 'f"\\', 'c1')}\nIt is 42.\n<answer>42</answer>`
  expect(read(text)).toEqual([
    ['think', 'Hm.'],
    ['text', 'Let me see.'],
    ['call', '{"name": "f", "arguments": {"a": 1}, "id": "c1"}'],
    ['result', '4 "2"'],
    ['text', 'It is 42.'],
    ['answer', '42'],
  ])
  const blocks = rolloutBlocks(text)
  expect(blocks[2]).toMatchObject({ call: { name: 'f', arguments: '{"a":1}', id: 'c1' } })
  expect(blocks[3]).toMatchObject({ name: 'f"\\', id: 'c1' })
})

test('reads calls in the formats of Hermes, Llama, Qwen3-Coder and Search-R1', () => {
  const calls = [
    '<tool_call>{"name": "f", "arguments": {"x": "1"}}</tool_call>',
    '<function=f>{"x": "1"}</function>',
    '<function_call>{"name": "f", "parameters": {"x": "1"}}</function_call>',
    '<tool_call>\n<function=f>\n<parameter=x>\n1\n</parameter>\n</function>\n</tool_call>',
  ]
  for (const text of calls) {
    const [block] = rolloutBlocks(text)
    expect(block, text).toMatchObject({ kind: 'call', call: { name: 'f' } })
    const call = block?.kind === 'call' ? block.call : null
    expect(JSON.parse(call?.arguments ?? '')).toEqual({ x: '1' })
  }
  expect(read('<search>capital</search>\n<information>Paris</information>')).toEqual([
    ['call', 'capital'],
    ['result', 'Paris'],
  ])
})

test('a code fence ends at a fence of at least the same length', () => {
  expect(read('````\n```\n<answer>1</answer>\n````\n<answer>2</answer>')).toEqual([
    ['text', '````\n```\n<answer>1</answer>\n````'],
    ['answer', '2'],
  ])
})

test('keeps invalid calls as generated, and long numbers exactly', () => {
  expect(rolloutBlocks('<tool_call>\nnot json\n</tool_call>')[0]).toMatchObject({ call: null })
  expect(rolloutBlocks('<tool_call>{"a":1}</tool_call>')[0]).toMatchObject({ call: null })
  const long = '<tool_call>{"name": "f", "arguments": 9007199254740993}</tool_call>'
  expect(rolloutBlocks(long)[0]).toMatchObject({
    call: { name: 'f', arguments: '{"name": "f", "arguments": 9007199254740993}' },
  })
})

test('a response may begin within its reasoning, or end in it', () => {
  expect(read('Hm.\n</think>\nFour.\n<think>Or five?</think>').map(([kind]) => kind)).toEqual([
    ...['think', 'text', 'think'],
  ])
  expect(read('So it is 4.\n</think>\nFour.')).toEqual([
    ['think', 'So it is 4.'],
    ['text', 'Four.'],
  ])
  expect(rolloutBlocks('<think>\nand then')[0]).toMatchObject({ kind: 'think', isClosed: false })
  expect(read('The tag </think> ends it.', false)).toEqual([['text', 'The tag </think> ends it.']])
})

test('tags within sentences, code and fences are text', () => {
  for (const text of [
    'Put it in <answer> tags, i.e. <answer> 4 </answer>.',
    '`<think>` is a tag, `</think>` ends it.',
    '```xml\n<think>\nno\n</think>\n```',
    '<tool_call>\n{"name": "f"',
    'plain',
  ]) {
    expect(read(text, false)).toEqual([['text', text]])
  }
})

test('finds tool calls within reasoning', () => {
  const text = '<think>\nI look it up.\n<search>x</search>\nGood.\n</think>\nDone.'
  const [think] = rolloutBlocks(text)
  expect(innerBlocks(text, think?.body as never).map(({ kind }) => kind)).toEqual([
    'text',
    'call',
    'text',
  ])
})

test('every character is in at most one block, in order', () => {
  const text = 'a\n<think>b</think>\n<tool_call>c</tool_call> d <tool_call>{}</tool_call>'
  let before = 0
  for (const { start, end, body } of rolloutBlocks(text)) {
    expect(start).toBeGreaterThanOrEqual(before)
    expect(body.start).toBeGreaterThanOrEqual(start)
    expect(body.end).toBeLessThanOrEqual(end)
    before = end
  }
})

test.each([
  '<tool_call>',
  '<think>\n',
  '<function=f>',
  '<tool_call><parameter=a>',
  '```\n',
  '<tool_response name="',
])('100 kB of %j take linear time', (unit) => {
  const text = unit.repeat(100_000 / unit.length)
  const start = process.cpuUsage()
  rolloutBlocks(text)
  rolloutBlocks(`<tool_call>${text}</tool_call>`)
  // A parser that takes quadratic time would need more than ten seconds.
  expect(process.cpuUsage(start).user / 1_000).toBeLessThan(2_000)
})
