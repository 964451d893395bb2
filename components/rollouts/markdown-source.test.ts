import { expect, test } from 'vitest'
import { markdownPieces, programLanguage } from './markdown-pieces.ts'
import { markdownSource } from './markdown-source.ts'
import { rolloutBlocks } from './rollout-blocks.ts'
import { outlineOf } from './text-outline.ts'

const formulas = (text: string) => markdownSource(text).formulas.map(({ body }) => body)

test('finds formulas in all delimiters', () => {
  expect(formulas('Let $x^2$ and \\(y\\), then $$z$$ and \\[\nw\n\\]')).toEqual([
    ...['x^2', 'y', 'z', '\nw\n'],
  ])
  expect(formulas('\\begin{align*}a&=b\\end{align*}')).toEqual(['\\begin{align*}a&=b\\end{align*}'])
  expect(formulas('So \\boxed{\\frac{1}{2}}.')).toEqual(['\\boxed{\\frac{1}{2}}'])
  expect(formulas('$2x + 3y$ of $5\\text{ cm}$')).toEqual(['2x + 3y', '5\\text{ cm}'])
})

test('prices, code and escapes are not formulas', () => {
  for (const text of [
    'It costs $5 and $10.',
    '$5+$7=$12 and $20-$8=$12',
    'He pays $5 per box (or $x).',
    'Each costs 5$ and I have 10$.',
    '`$x$` and ```\n$y$\n```',
    '```\n$y$\n```',
    'https://a.b/$x$/c',
    '\\$5 and \\$6',
    '$ x $',
    '$x\n\ny$',
    '\\\\[2pt]',
    'within \\boxed{}.',
  ]) {
    expect(formulas(text), text).toEqual([])
  }
})

test('keeps positions, and the literal * and # of products, powers and answers', () => {
  const text = '2*3*4, 2**3, *em*, un*it*\n#### 72\n#### Step\n\u0000 $x$ \\(y\\)'
  const { text: prepared, literals, formulaChar } = markdownSource(text)
  expect(prepared).toHaveLength(text.length)
  const restored = [...prepared].map((char) => literals.get(char) ?? char).join('')
  expect(restored.replaceAll(formulaChar, '_')).toBe(
    '2*3*4, 2**3, *em*, un*it*\n#### 72\n#### Step\n\u0000 ___ _____',
  )
  expect(prepared).toContain('*em*')
  expect(prepared).not.toContain('2*3')
  expect(prepared).not.toContain('#### 72')
  expect(prepared).toContain('#### Step')
})

test('a long list is cut before its items', () => {
  const text = Array.from(
    { length: 200 },
    (_, i) => `${i + 1}. item ${i}\n   with a second line\n`,
  ).join('')
  const pieces = markdownPieces(text).map(({ start, end }) => text.slice(start, end))
  expect(pieces.join('')).toBe(text)
  expect(pieces.length).toBeGreaterThan(4)
  for (const piece of pieces) {
    expect(piece).toMatch(/^\d+\. item/)
    expect(piece.length).toBeLessThan(1_100)
  }
})

test('chunks cover the text, keep code blocks whole, and limit the length of paragraphs', () => {
  const code = `\`\`\`python\n${'x = 1\n'.repeat(800)}\`\`\`\n`
  const text = `${'A paragraph.\n\n'.repeat(500)}${code}${'word '.repeat(5_000)}\n\nEnd.`
  const pieces = markdownPieces(text)
  expect(pieces.map(({ start, end }) => text.slice(start, end)).join('')).toBe(text)
  expect(pieces.filter(({ kind }) => kind === 'code')).toMatchObject([{ language: 'python' }])
  for (const { kind, start, end } of pieces) {
    if (kind === 'markdown') expect(end - start).toBeLessThanOrEqual(12_000)
  }
  expect(markdownPieces('```js\nopen').map(({ kind }) => kind)).toEqual(['markdown'])
  expect(markdownPieces(`\`\`\`js\n${'x\n'.repeat(3_000)}`)).toMatchObject([
    { kind: 'code', language: 'js', body: { start: 6, end: 6_006 } },
  ])
  const pair = markdownPieces(`a${'😀'.repeat(20_000)}`)
  for (const { start, end } of pair)
    expect(`a${'😀'.repeat(20_000)}`.slice(start, end).isWellFormed()).toBe(true)
})

test.each([
  ['>'.repeat(5_000)],
  ['> '.repeat(2_000)],
  ['- '.repeat(2_000)],
  ['['.repeat(5_000)],
  ['*a '.repeat(2_000)],
])('deep nesting is not parsed: case %#', (text) => {
  expect(markdownPieces(text).every(({ kind }) => kind === 'plain')).toBe(true)
})

test('recognizes programs', () => {
  expect(programLanguage('from typing import List\n\n\ndef f(x):\n    """Doc"""\n')).toBe('python')
  expect(programLanguage('    for x in y:\n        return x\n    return None\n')).toBe('python')
  expect(programLanguage('{"a": [1, 2]}')).toBe('json')
  expect(programLanguage('#include <stdio.h>\nint main() {}')).toBe('cpp')
  for (const prose of [
    'Write a function.\n\ndef f(x):',
    'Import duties rise.\nThey do.',
    '  indented\n  prose',
    '[1] says so',
    'class action suits',
    'from here on\nall is well',
    '```python\ndef f(): pass\n```',
  ]) {
    expect(programLanguage(prose), prose).toBeNull()
  }
})

test('the outline has headings, bold lines and blocks, but no code and no GSM8K answer', () => {
  const text =
    '<think>\nHm\n</think>\n# Plan\n## First\n**Step 1:**\n```sh\n# comment\n```\n<tool_call>{"name": "f", "arguments": {}}</tool_call>\n#### 72'
  expect(outlineOf(text, rolloutBlocks(text)).map(({ label, level }) => [label, level])).toEqual([
    ['Reasoning', 0],
    ['Plan', 1],
    ['First', 2],
    ['Step 1:', 2],
    ['f', 0],
  ])
})

test('the outline ignores headings in a code block that contains another fence', () => {
  const text = '# Plan\n~~~md\n```sh\n~~~\n# Run\n````md\n```\n# comment\n```\n````\n'
  expect(outlineOf(text, rolloutBlocks(text)).map(({ label }) => label)).toEqual(['Plan', 'Run'])
})
