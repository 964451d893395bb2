import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { prerender } from 'react-dom/static'
import { describe, expect, test } from 'vitest'
import { markdownPieces, sourceOf } from './markdown-pieces.ts'
import { markdownSource } from './markdown-source.ts'
import { RenderedMarkdown } from './rendered-markdown.tsx'
import { HOSTILE_TEXTS } from './testing/hostile-texts.ts'
import { answerMark, type TextMark } from './text-marks.ts'

async function html(text: string, marks: TextMark[] = []): Promise<string> {
  const { prelude } = await prerender(
    markdownPieces(text).map((piece) =>
      piece.kind === 'markdown' ? (
        <RenderedMarkdown key={piece.start} {...sourceOf(text, piece)} marks={marks} />
      ) : (
        <p key={piece.start}>{text.slice(piece.start, piece.end)}</p>
      ),
    ),
    { onError: (error) => expect.unreachable(String(error)) },
  )
  return await new Response(prelude as unknown as ReadableStream).text()
}

const visible = (page: string) =>
  page
    .replace(/<svg.*?<\/svg>/g, '')
    .replace(/<[^>]*>/g, '')
    .replaceAll('&lt;', '<')
    .replaceAll('&gt;', '>')
    .replaceAll('&quot;', '"')
    .replaceAll('&#x27;', "'")
    .replaceAll('&amp;', '&')

const ELEMENTS =
  /^(?:div|p|h[4-6]|ul|ol|li|blockquote|hr|br|strong|em|del|code|pre|mark|span|section|table|thead|tbody|tr|th|td|button|svg|path|rect|circle|line)$/
const ATTRIBUTES =
  /^(?:class|dir|title|style|role|tabindex|type|start|width|height|viewbox|fill|stroke|stroke-width|stroke-linecap|stroke-linejoin|preserveaspectratio|xmlns|d|cx|cy|r|rx|ry|x|y|x1|x2|y1|y2|aria-[a-z]+|data-[a-z]+|node)$/

describe('hostile texts', () => {
  test.each(HOSTILE_TEXTS.map((text) => [text.slice(0, 60), text]))(
    '%j is inert',
    async (_, text) => {
      const page = await html(text)
      for (const [, name = '', attributes = ''] of page.matchAll(
        /<([a-zA-Z][^\s/>]*)((?:\s+[^\s=>]+(?:="[^"]*")?)*)\s*\/?>/g,
      )) {
        expect(name).toMatch(ELEMENTS)
        for (const [, attribute = '', value = ''] of attributes.matchAll(
          /\s([^\s=]+)(?:="([^"]*)")?/g,
        )) {
          expect(attribute.toLowerCase()).toMatch(ATTRIBUTES)
          if (attribute === 'style')
            expect(value).not.toMatch(/url|position:\s*(?:fixed|absolute)|[^.\d]\d{3,}(?:\.\d+)?em/)
        }
      }
      // React escapes the tags of the text.
      expect(page).not.toMatch(/<(?:script|img|iframe|style|link|meta|base|form|input|a)\b/i)
      expect(page).not.toMatch(/[\u202a-\u202e\u2066-\u2069]/)
    },
  )
})

test('HTML, URLs and link definitions stay visible', async () => {
  const page = visible(
    await html(
      '<b>here</b> [text](javascript:x) ![alt](http://a.b/c)\n\n[d]: http://e.f\n\n[^1]: note',
    ),
  )
  for (const part of [
    '<b>here</b>',
    'text',
    'javascript:x',
    'alt',
    'http://a.b/c',
    '[d]: http://e.f',
    '[^1]: note',
  ]) {
    expect(page).toContain(part)
  }
})

test('renders code, tables, formulas and line ends', async () => {
  const page = await html(
    '# Title\nOne\nTwo\n\n```python\nx = "a"  # c\n```\n\n| a | b |\n|---|---|\n| 1 | $x_1$ |\n\n\\[ \\frac{1}{2} \\]\n#### 72',
  )
  expect(page).toMatch(/<h4[^>]*data-level="1"[^>]*>Title<\/h4>/)
  expect(page).toContain('One\nTwo')
  expect(page).toMatch(/<span class="hljs-string">/)
  expect(page).toMatch(/<td[^>]*><span role="math" aria-label="\$x_1\$"/)
  expect(page).toMatch(/data-math="display"[^>]*><span class="katex-display">/)
  expect(page).toMatch(/#### 72<\/p>/)
})

test.each([
  ['| n | value |\n|---|:-:|\n', (i: number) => `| ${i} | $x_{${i}}$ |\n`],
  ['n | value\n--- | ---\n', (i: number) => `${i} | a \\| b\n`],
])('a long table stays a table in every chunk: %j', async (head, row) => {
  const rows = Array.from({ length: 400 }, (_, i) => row(i))
  const text = `Before:\n\n${head}${rows.join('')}\nAfter | the table`
  const pieces = markdownPieces(text)
  expect(pieces.length).toBeGreaterThan(3)
  expect(pieces.map(({ start, end }) => text.slice(start, end)).join('')).toBe(text)
  const page = await html(text)
  expect(page.match(/<tr>/g)).toHaveLength(400 + pieces.length)
  expect(page).toMatch(/After \| the table<\/p>/)
  expect(page.match(/<p/g)).toHaveLength(2)
})

test('lines that look like the head of a table are repeated only for a table', () => {
  const line = 'a | b and more words of a paragraph\n'
  for (const head of ['| a | b |\n|---|\n', 'no pipe\n|---|---|\n', '| a | b |\n\n|---|---|\n']) {
    const pieces = markdownPieces(head + line.repeat(400))
    expect(pieces.map((piece) => piece.head)).toEqual(pieces.map(() => null))
  }
  const ended = markdownPieces(`| a | b |\n|---|---|\n| 1 | 2 |\n\n${line.repeat(400)}`)
  expect(ended.map((piece) => piece.head)).toEqual(ended.map(() => null))
})

test('an invalid formula shows its source', async () => {
  const page = await html('So $\\frac{1}{$ and $\\unknown{x}$.')
  expect(visible(page)).toContain('\\frac{1}{')
  expect(visible(page)).toContain('\\unknown')
})

test.each([
  ['So it is **42**.', '42', /<mark data-mark="answer"[^>]*>42<\/mark>/],
  ['#### 42', '42', /#### <mark data-mark="answer"[^>]*>42<\/mark>/],
  ['Thus $\\boxed{42}$.', '42', /data-mark="answer"[^>]*><span class="katex">/],
  ['```python\nreturn 42\n```', '42', /<mark data-mark="answer"[^>]*>42<\/mark>/],
  ['> a\n> is 42', '42', /<mark data-mark="answer"[^>]*>42<\/mark>/],
  ['- `f(42)` \\* 3', 'f(42)', /<code><mark data-mark="answer"[^>]*>f\(42\)<\/mark><\/code>/],
  ['a &amp; b: 42', '42', /<mark data-mark="answer"[^>]*>42<\/mark>/],
])('marks the answer in %j', async (text, extracted, expected) => {
  const mark = answerMark(text, extracted)
  const page = await html(text, mark === null ? [] : [mark])
  expect(page).toMatch(expected)
  expect(page.match(/data-mark/g)).toHaveLength(1)
})

const data = join(import.meta.dirname, '../../../shared/data')

test.skipIf(!existsSync(data))('renders real responses without losing a word', async () => {
  const lines = [
    'math500-groups4/groups.first100.jsonl',
    'gsm8k-groups8/groups.first200.jsonl',
  ].flatMap((file) => readFileSync(join(data, file), 'utf8').trim().split('\n').slice(0, 12))
  for (const line of lines) {
    for (const text of textsOf(JSON.parse(line))) {
      const page = visible(await html(text))
      let prose = text
      for (const { start, end } of markdownSource(text).formulas) {
        prose = prose.slice(0, start) + ' '.repeat(end - start) + prose.slice(end)
      }
      const words = prose.match(/[A-Za-z]{4,}/g)
      for (const word of words ?? []) expect(page).toContain(word)
    }
  }
})

function textsOf(value: unknown): string[] {
  if (typeof value === 'string') return value.length > 40 ? [value] : []
  return typeof value === 'object' && value !== null ? Object.values(value).flatMap(textsOf) : []
}
