import { nextFence } from './rollout-blocks.ts'

export interface MarkdownPiece {
  start: number
  end: number
  /**
   * `code` is source code, drawn without Markdown. `plain` is text that would cost the Markdown parser quadratic
   * time or a deep stack.
   */
  kind: 'markdown' | 'code' | 'plain'
  /** For `code`, the language and the range without the fences. */
  language: string | null
  body: { start: number; end: number }
  /** The header rows of the table that the chunk continues; null if the chunk does not begin with a table row. */
  head: { start: number; end: number } | null
}

/**
 * Returns the Markdown of a chunk, after the header rows of the table that it continues. `at` is the position in the
 * text at which `source` would start if the header rows were right before the chunk.
 */
export function sourceOf(text: string, { start, end, head }: MarkdownPiece) {
  const header = head === null ? '' : text.slice(head.start, head.end)
  return { source: header + text.slice(start, end), at: start - header.length }
}

/**
 * A chunk ends at the first blank line, list item or table row after this many characters, so that rendering it takes a
 * few milliseconds.
 */
const PIECE_CHARS = 1_000
/** A chunk ends at any line break after this many characters, except within formulas and code blocks. */
const MAX_PIECE_CHARS = 4_000
/** A code block longer than this is a separate chunk and skips the Markdown parser. */
const OWN_PIECE_CHARS = 2_000
/** Text with this many nested block quotes or lists is not parsed. */
const MAX_NESTING = 24

/** An item of an outermost list. A long list is cut before such an item. */
const LIST_ITEM = /^(?:[-*+]|\d{1,9}[.)]) /

const DELIMITER_ROW =
  /^ {0,3}(?=.*\|)\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*\r?\n?$/

const FENCE = /^ {0,3}(`{3,}|~{3,})([^\n]*)$/

export function markdownPieces(text: string, from = 0, to = text.length): MarkdownPiece[] {
  const program = programLanguage(text.slice(from, to))
  if (program !== null) {
    const range = { start: from, end: to }
    return [{ ...range, kind: 'code', language: program, body: range, head: null }]
  }
  const pieces: MarkdownPiece[] = []
  let start = from
  let head: MarkdownPiece['head'] = null
  /** The header rows of the table to which the next line belongs. */
  let table: MarkdownPiece['head'] = null
  const cut = (end: number) => {
    for (const part of parts(text, start, end)) {
      pieces.push({ ...part, head })
      head = null
    }
    start = end
    head = table
  }
  let fence: { marker: string; info: string; at: number; body: number } | null = null
  let math = false
  let previous: { at: number; line: string } | null = null
  for (let at = from; at < to; ) {
    const newline = text.indexOf('\n', at)
    const end = newline < 0 || newline >= to ? to : newline + 1
    const line = text.slice(at, Math.min(end, at + 400))
    const found = FENCE.exec(line.replace(/\r?\n$/, ''))
    if (found !== null) {
      previous = table = null
      const [, marker = '', info = ''] = found
      const open = nextFence(fence?.marker ?? null, marker, info)
      if (fence !== null && open === null) {
        if (at - fence.body > OWN_PIECE_CHARS) {
          cut(fence.at)
          pieces.push(codePiece({ ...fence, bodyEnd: at, end }))
          start = end
        }
        fence = null
      } else if (fence === null && open !== null) {
        fence = { marker, info, at, body: end }
      }
    } else if (fence === null) {
      if ((line.match(/\$\$/g)?.length ?? 0) % 2 === 1 || /^\s*\\[[\]]\s*$/.test(line)) math = !math
      const isBlank = line.trim() === ''
      if (isBlank) math = false
      if (table === null && previous !== null && isTableHead(previous.line, line)) {
        table = { start: previous.at, end }
      }
      previous = { at, line }
      const next = text.slice(end, Math.min(to, end + 400))
      if (LIST_ITEM.test(next) || !/^[^\n]*\|/.test(next)) table = null
      const isLong = end - start >= PIECE_CHARS
      if (isBlank && isLong && !/^[ \t]/.test(next)) cut(end)
      else if (isLong && table !== null && table.end < end) cut(end)
      else if (!math && isLong && LIST_ITEM.test(next)) cut(end)
      else if (!math && end - start >= MAX_PIECE_CHARS) cut(end)
    }
    at = end
  }
  if (fence !== null && to - fence.body > OWN_PIECE_CHARS) {
    cut(fence.at)
    pieces.push(codePiece({ ...fence, bodyEnd: to, end: to }))
    start = to
  }
  cut(to)
  return pieces
}

/** Whether two lines are the header rows of a table: its titles, and a delimiter row with the same number of cells. */
function isTableHead(titles: string, line: string): boolean {
  return titles.includes('|') && DELIMITER_ROW.test(line) && cellsOf(titles) === cellsOf(line)
}

function cellsOf(row: string): number {
  const inner = row
    .trim()
    .replace(/^\|/, '')
    .replace(/(?<!\\)\|$/, '')
  return inner.split(/(?<!\\)\|/).length
}

function codePiece(of: {
  at: number
  info: string
  body: number
  bodyEnd: number
  end: number
}): MarkdownPiece {
  const bodyEnd = Math.max(of.body, of.bodyEnd)
  return {
    ...{
      start: of.at,
      end: of.end,
      kind: 'code',
      body: { start: of.body, end: bodyEnd },
      head: null,
    },
    language: /^\s*([\w+#.-]{1,30})/.exec(of.info)?.[1] ?? null,
  }
}

function* parts(text: string, from: number, to: number): Generator<MarkdownPiece> {
  let start = from
  while (to - start > MAX_PIECE_CHARS * 2) {
    const limit = start + MAX_PIECE_CHARS
    const newline = text.lastIndexOf('\n', limit)
    const space = text.lastIndexOf(' ', limit)
    const at = newline > start + PIECE_CHARS ? newline : space > start + PIECE_CHARS ? space : limit
    const end = isLowSurrogate(text, at + 1) ? at + 2 : at + 1
    yield piece(text, start, end)
    start = end
  }
  if (start < to && text.slice(start, to).trim() !== '') yield piece(text, start, to)
}

function piece(text: string, start: number, end: number): MarkdownPiece {
  const kind = isTooDeep(text.slice(start, end)) ? 'plain' : 'markdown'
  return { start, end, kind, language: null, body: { start, end }, head: null }
}

function isLowSurrogate(text: string, at: number): boolean {
  const code = text.charCodeAt(at)
  return code >= 0xdc00 && code <= 0xdfff
}

const NESTED_QUOTES = new RegExp(`^[ \\t]*(?:>[ \\t]?){${MAX_NESTING},}`, 'm')
const NESTED_LISTS = new RegExp(`^[ \\t]*(?:(?:[-+*]|\\d{1,9}[.)])[ \\t]+){${MAX_NESTING},}`, 'm')
const DEEP_INDENT = /^(?: {80}|\t{20})[ \t]*(?:[-+*]|\d{1,9}[.)]) /m

/** Whether nesting, or runs of brackets or asterisks, would cost the Markdown parser quadratic time or a deep stack. */
function isTooDeep(text: string): boolean {
  if (NESTED_QUOTES.test(text) || NESTED_LISTS.test(text) || DEEP_INDENT.test(text)) return true
  let open = 0
  let emphasis = 0
  for (const char of text) {
    if (char === '[') {
      if (++open > 200) return true
    } else if (char === ']') open = Math.max(0, open - 1)
    else if ((char === '*' || char === '_') && ++emphasis > 1_200) return true
  }
  return false
}

const FIRST_LINES: readonly [language: string, line: RegExp][] = [
  [
    'python',
    /^(?:from [\w.]+ import |import \w[\w.]*(?: as \w+)?\s*$|def \w+\(|class \w+[(:]|@\w)/,
  ],
  ['python', /^#!.*python/],
  ['bash', /^#!.*sh\b/],
  ['cpp', /^#include *[<"]/],
  ['javascript', /^(?:const|let|var) \w+ = |^(?:async )?function \w*\(|^import .* from ['"]/],
  ['java', /^(?:public|private) (?:final |static )*class |^import java/],
  ['sql', /^(?:SELECT|INSERT INTO|CREATE TABLE|WITH \w+ AS)\b/],
  ['rust', /^(?:pub )?fn \w+|^use \w+::/],
]

/** The language of a text that is a program as a whole; null for prose. */
export function programLanguage(text: string): string | null {
  const start = text.slice(0, 2_000)
  if (/^ {0,3}(?:`{3}|~{3})/m.test(text)) return null
  if (/^\s*[[{]/.test(start) && text.length < 200_000 && isJson(text)) return 'json'
  const lines = start.split('\n').filter((line) => line.trim() !== '')
  const first = lines[0] ?? ''
  const found = FIRST_LINES.find(([, line]) => line.test(first))
  if (found !== undefined) return lines.length > 1 || text.length < 2_000 ? found[0] : null
  // A text is the body of a function, as in HumanEval, if every line is indented and some lines are statements.
  const isIndented = lines.length > 1 && lines.every((line) => /^(?: {2,}|\t)/.test(line))
  const statement =
    /^\s+(?:return\b|for .+:$|if .+:$|while .+:$|def \w+\(|\w+(?:\.\w+)* [+\-*/]?= )/
  return isIndented && lines.some((line) => statement.test(line)) ? 'python' : null
}

function isJson(text: string): boolean {
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'object'
  } catch {
    return false
  }
}
