import { describe, expect, it, test } from 'vitest'
import { ChatTemplate, ChatTemplateError, chatTemplateOf } from './chat-template.ts'
import type { EngineTarget, ScoreInput } from './engine.ts'
import { engineOf } from './registry.ts'
import {
  CHATML,
  GEMMA,
  LLAMA3,
  LLAMA32,
  MISTRAL,
  type ModelTemplate,
  QWEN25,
} from './testing/chat-templates.ts'

const of = (model: ModelTemplate) => new ChatTemplate(JSON.stringify(model))
const written = (template: string, variables: Record<string, unknown> = {}) =>
  new ChatTemplate(template).render([{ role: 'user', content: 'Q' }], { variables })

const INPUT: ScoreInput = { prompt: 'What is 6 × 12?', response: '  It is 72.\n' }
const CONVERSATION = [
  { role: 'system', content: 'Be brief.' },
  { role: 'user', content: 'Hi\n' },
  { role: 'assistant', content: 'Hello <b>&"</b>' },
  { role: 'user', content: '6×12?' },
]
const NOW = () => new Date(2026, 10, 5, 9, 3, 4)

// The expected texts were rendered by Python's jinja2 3.1 with the settings of the model libraries.
describe('a template of a known model', () => {
  const single: [string, ModelTemplate, string][] = [
    [
      'ChatML',
      CHATML,
      '<|im_start|>user\nWhat is 6 × 12?<|im_end|>\n<|im_start|>assistant\n  It is 72.\n<|im_end|>\n',
    ],
    [
      'Llama 3',
      LLAMA3,
      '<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\nWhat is 6 × 12?<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\nIt is 72.<|eot_id|>',
    ],
    [
      'Qwen2.5',
      QWEN25,
      '<|im_start|>system\nYou are Qwen, created by Alibaba Cloud. You are a helpful assistant.<|im_end|>\n<|im_start|>user\nWhat is 6 × 12?<|im_end|>\n<|im_start|>assistant\n  It is 72.\n<|im_end|>\n',
    ],
    ['Mistral', MISTRAL, '<s>[INST] What is 6 × 12? [/INST]  It is 72.\n</s>'],
    [
      'Gemma',
      GEMMA,
      '<bos><start_of_turn>user\nWhat is 6 × 12?<end_of_turn>\n<start_of_turn>model\nIt is 72.<end_of_turn>\n',
    ],
  ]
  it.each(single)('renders prompt and response: %s', (_, model, text) => {
    const template = of(model)
    expect(template.renderSample(INPUT)).toBe(text)
    const bos = (model.bos_token as string | null) ?? ''
    expect(template.bosToken).toBe(bos)
    expect(template.renderSampleWithoutBos(INPUT)).toBe(text.slice(bos.length))
    expect(new ChatTemplate(template.normalized).renderSample(INPUT)).toBe(text)
  })

  it('renders whole conversations, with the date if the template uses it', () => {
    const sample = { prompt: CONVERSATION, response: 'It is 72.' }
    expect(of(QWEN25).renderSample(sample)).toBe(
      '<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi\n<|im_end|>\n<|im_start|>assistant\nHello <b>&"</b><|im_end|>\n<|im_start|>user\n6×12?<|im_end|>\n<|im_start|>assistant\nIt is 72.<|im_end|>\n',
    )
    expect(of(LLAMA32).render(CONVERSATION, { now: NOW, addGenerationPrompt: true })).toBe(
      '<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge Date: December 2023\nToday Date: 05 Nov 2026\n\nBe brief.<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\nHello <b>&"</b><|eot_id|><|start_header_id|>user<|end_header_id|>\n\n6×12?<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n',
    )
  })

  it('rejects a conversation with the template’s own error message', () => {
    const refused = () => of(MISTRAL).renderSample({ prompt: CONVERSATION, response: 'A' })
    expect(refused).toThrow(ChatTemplateError)
    expect(refused).toThrow('Conversation roles must alternate user/assistant/user/assistant/...')
  })

  it('gets tools as JSON', () => {
    const tools = [{ name: 'é"x', parameters: { a: [1, 2.5, true, null], b: {} } }]
    expect(of(QWEN25).render(CONVERSATION, { variables: { tools } })).toContain(
      '<tools>\n{"name": "é\\"x", "parameters": {"a": [1, 2.5, true, null], "b": {}}}\n</tools>',
    )
  })
})

it('renders the tool calls of a prompt, whether or not the template supports tools', () => {
  const calls = [{ id: 'c1', type: 'function', function: { name: 'mul', arguments: '{"a":6}' } }]
  const prompt = [
    { role: 'user', content: '6 × 12?' },
    { role: 'assistant', content: null, tool_calls: calls },
    { role: 'tool', content: '72' },
  ]
  const text = of(CHATML).renderSample({ prompt, response: 'It is 72.' })
  expect(text).toContain('{"name": "mul", "arguments": {"a":6}, "id": "c1"}')
  expect(text).toContain('<|im_start|>tool\n72')
})

describe('a rendered text', () => {
  it('does not contain the EOS tokens of the response', () => {
    const response = '72<|im_end|> and<|im_end|>'
    expect(of(CHATML).renderSample({ prompt: 'Q', response })).toBe(
      '<|im_start|>user\nQ<|im_end|>\n<|im_start|>assistant\n72 and<|im_end|>\n',
    )
    const other = of({ ...CHATML, input_eos_token: '<|endoftext|>' } as ModelTemplate)
    expect(other.renderSample({ prompt: 'Q', response: '72<|endoftext|>' })).toContain(
      '\n72<|im_end|>',
    )
  })

  it('keeps the special tokens of other models', () => {
    const template = new ChatTemplate('{% for m in messages %}{{ m.content }}{% endfor %}')
    expect(template.renderSampleWithoutBos({ prompt: '<s>', response: '</s>' })).toBe('<s></s>')
  })

  it('is well-formed', () => {
    expect(of(CHATML).renderSample({ prompt: 'Q', response: 'x\ud800' })).toContain('x\ufffd')
  })
})

describe('a source', () => {
  it('is compiled once', () => {
    const text = JSON.stringify(CHATML)
    expect(chatTemplateOf(text)).toBe(chatTemplateOf(text))
    for (let i = 0; i < 40; i++) chatTemplateOf(`${i}{{ messages }}`)
    expect(chatTemplateOf(text).renderSample(INPUT)).toBe(of(CHATML).renderSample(INPUT))
  })

  it('uses the template named default, if there are several', () => {
    const chat_template = [
      { name: 'tool_use', template: 'tools' },
      { name: 'default', template: 'by default' },
    ]
    expect(new ChatTemplate(JSON.stringify({ chat_template })).render([])).toBe('by default')
  })

  const refused: [string, string, string][] = [
    ['empty', ' ', 'it is empty'],
    ['without a template', '{"bos_token":"<s>"}', 'no chat_template'],
    ['without a default one', '{"chat_template":[{"name":"rag","template":"x"}]}', '"default"'],
    ['no Jinja', '{% for m in messages %}', 'cannot be read'],
    ['lacking its tokens', MISTRAL.chat_template, 'bos_token and eos_token without a value'],
    ['too long', 'x'.repeat(600_000), '524288'],
  ]
  it.each(refused)('is refused with the reason: %s', (_, text, said) => {
    expect(() => new ChatTemplate(text)).toThrow(ChatTemplateError)
    expect(() => new ChatTemplate(text)).toThrow(said)
  })
})

describe('built-ins of templates', () => {
  it('include dates in Python’s format', () => {
    const template = new ChatTemplate(
      "{{ strftime_now('%A %a %-d. %B %b %y %Y %m %H:%M:%S %I %p %F %%') }}",
    )
    expect(template.render([], { now: NOW })).toBe(
      'Thursday Thu 5. November Nov 26 2026 11 09:03:04 09 AM 2026-11-05 %',
    )
    expect(() => written("{{ strftime_now('%Q') }}")).toThrow('%Q')
  })

  it('include namespaces, macros, loops that end early, tests and filters', () => {
    expect(
      written(
        "{% set ns = namespace(n=0) %}{% for i in range(2, 20, 3) %}{% if i > 12 %}{% break %}{% endif %}{% set ns.n = ns.n + i %}{% endfor %}{{ ns.n }}{% macro twice(x) %}{{ x }}{{ x }}{% endmacro %} {{ twice('a') }} {{ 'no' if missing is defined else 'yes' }} {{ [1, 2] | tojson(indent=2) }}",
      ),
    ).toBe('26 aa yes [\n  1,\n  2\n]')
  })
})

describe('an endless template is stopped', () => {
  test.each([
    ['loops', '{% for a in range(9999) %}{% for b in range(9999) %}x{% endfor %}{% endfor %}'],
    ['a macro that calls itself', '{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}'],
    ['a list of numbers', '{% for a in range(1000000000) %}x{% endfor %}'],
    ['numbers without end', '{{ range(0, 10, 0) }}'],
    [
      'a text that doubles',
      "{% set ns = namespace(s='aaaa') %}{% for a in range(60) %}{% set ns.s = ns.s + ns.s %}{% endfor %}{{ ns.s }}",
    ],
    [
      'a list that doubles',
      '{% set ns = namespace(s=[1]) %}{% for a in range(60) %}{% set ns.s = ns.s + ns.s %}{% endfor %}',
    ],
  ])('%s', (_, template) => {
    expect(() => written(template)).toThrow(ChatTemplateError)
  })
})

describe('the text of a registered template is sent', () => {
  const target: EngineTarget = {
    model: 'rm',
    version: null,
    chatTemplate: of(LLAMA3),
  }
  const withBos = of(LLAMA3).renderSample(INPUT)
  const withoutBos = withBos.slice('<|begin_of_text|>'.length)
  const body = (engine: Parameters<typeof engineOf>[0], change: Partial<EngineTarget> = {}) =>
    JSON.parse(String(engineOf(engine).buildScoreRequest(INPUT, { ...target, ...change }).body))

  it('to vLLM with its BOS, and without it to older versions, which add one', () => {
    expect(body('vllm')).toMatchObject({ input: withBos, add_special_tokens: false })
    expect(body('vllm')).not.toHaveProperty('messages')
    expect(body('vllm', { route: 'token' })).toMatchObject({ input: withBos })
    expect(body('vllm', { version: '0.11.0' })).toMatchObject({ input: withoutBos })
  })

  it('to SGLang and TEI without a BOS, because their tokenizers add one', () => {
    expect(body('sglang')).toMatchObject({ input: withoutBos })
    expect(body('tei')).toMatchObject({ inputs: [[withoutBos]] })
  })

  it('to OpenRLHF with special tokens, as its trainer does', () => {
    expect(body('openrlhf')).toMatchObject({ query: [withBos], prompts: ['What is 6 × 12?'] })
  })

  it('but not by a route that keeps prompt and response apart', () => {
    const pair = { route: 'pair' } as const
    const plain = { queries: 'What is 6 × 12?', documents: INPUT.response }
    expect(body('vllm', pair)).toMatchObject(plain)
    expect(body('tei', pair)).toMatchObject({ query: plain.queries, texts: [plain.documents] })
  })
})
