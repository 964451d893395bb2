import type { ToolCall } from '../../server/contract/turn-text.ts'

interface Range {
  start: number
  end: number
}

/** A block of a text. `start` and `end` include its tags, `body` does not. */
export type RolloutBlock = Range & { body: Range } & (
    | { kind: 'text' }
    /** Reasoning. `isClosed` tells whether its end tag was generated. */
    | { kind: 'think'; isClosed: boolean }
    /** A tool call. `call` is null if the text is not a call in a known format. */
    | { kind: 'call'; tag: string; call: ToolCall | null }
    | { kind: 'result'; tag: string; name: string | null; id: string | null }
    | { kind: 'answer' }
  )

const KINDS: Record<string, 'think' | 'call' | 'result' | 'answer'> = {
  think: 'think',
  thinking: 'think',
  reasoning: 'think',
  tool_call: 'call',
  function_call: 'call',
  search: 'call',
  tool_response: 'result',
  tool_result: 'result',
  function_response: 'result',
  information: 'result',
  interpreter: 'result',
  observation: 'result',
  answer: 'answer',
}

/** A fence of a code block, or an opening tag. Every alternative matches in linear time. */
const OPENING = new RegExp(
  `^ {0,3}(\`{3,}|~{3,})([^\\n]*)$|<(${Object.keys(KINDS).join('|')})((?: [a-z_]{1,20}="(?:[^"\\\\\\n]|\\\\.){0,200}")*)>|<function=([\\w.-]{1,64})>`,
  'gm',
)

/** The end tag of reasoning. Its start tag may be missing, because some chat templates put it into the prompt. */
const THINK_END = /<\/(think|thinking|reasoning)>/

/**
 * Splits a text into reasoning, tool calls, tool results and the text between them. Tags in code are ignored, and so
 * are tags that do not start a line, except for `<tool_call>`. Blocks without an end tag stay text, except for
 * reasoning.
 */
export function rolloutBlocks(text: string, isResponse = true): RolloutBlock[] {
  const blocks: RolloutBlock[] = []
  let from = 0
  const add = (block: RolloutBlock) => {
    addText(blocks, text, from, block.start)
    blocks.push(block)
    from = block.end
  }
  if (isResponse) {
    const block = openedBefore(text)
    if (block !== null) add(block)
  }
  scan(text, from, text.length, true, add)
  addText(blocks, text, from, text.length)
  return blocks
}

/** The blocks within the body of another block, except reasoning. */
export function innerBlocks(text: string, { start, end }: Range): RolloutBlock[] {
  const blocks: RolloutBlock[] = []
  let from = start
  scan(text, start, end, false, (block) => {
    addText(blocks, text, from, block.start)
    blocks.push(block)
    from = block.end
  })
  addText(blocks, text, from, end)
  return blocks
}

function scan(
  text: string,
  from: number,
  to: number,
  withThink: boolean,
  add: (block: RolloutBlock) => void,
): void {
  /** Tags that are not closed in the rest of the text. Without this set, many opening tags would take quadratic time. */
  const endless = new Set<string>()
  let fence: string | null = null
  OPENING.lastIndex = from
  for (let match = OPENING.exec(text); match !== null; match = OPENING.exec(text)) {
    if (match.index >= to) return
    const [whole, marker, info, tag, attributes, fn] = match
    if (marker !== undefined) {
      fence = nextFence(fence, marker, info ?? '')
      continue
    }
    const at = match.index
    const name = tag ?? 'function'
    const kind = KINDS[name] ?? 'call'
    if (fence !== null || text[at - 1] === '`' || endless.has(name)) continue
    if (kind === 'think' && !withThink) continue
    if (!(name === 'tool_call' || startsLine(text, at, from))) continue
    const bodyStart = at + whole.length
    const close = `</${name}>`
    const found = text.indexOf(close, bodyStart)
    const isClosed = found >= 0 && found + close.length <= to
    if (!isClosed) {
      endless.add(name)
      if (kind !== 'think') continue
    }
    const body = { start: bodyStart, end: isClosed ? found : to }
    const range = { start: at, end: isClosed ? found + close.length : to, body }
    const inside = text.slice(body.start, body.end)
    if (kind === 'call') {
      const call = fn === undefined ? readCall(name, inside) : readFunction(fn, inside)
      add({ ...range, kind, tag: name, call })
    } else if (kind === 'result') {
      const named = (key: string) => attribute(attributes ?? '', key)
      add({ ...range, kind, tag: name, name: named('name'), id: named('tool_call_id') })
    } else if (kind === 'think') add({ ...range, kind, isClosed })
    else add({ ...range, kind })
    from = range.end
    OPENING.lastIndex = range.end
  }
}

function openedBefore(text: string): RolloutBlock | null {
  const end = THINK_END.exec(text)
  if (end === null || text[end.index - 1] === '`') return null
  const opening = text.indexOf(`<${end[1]}>`)
  if (opening >= 0 && opening < end.index) return null
  const body = { start: 0, end: end.index }
  return { kind: 'think', isClosed: true, start: 0, end: end.index + end[0].length, body }
}

function addText(blocks: RolloutBlock[], text: string, start: number, end: number): void {
  if (start >= end || text.slice(start, end).trim() === '') return
  blocks.push({ kind: 'text', start, end, body: { start, end } })
}

function startsLine(text: string, at: number, from: number): boolean {
  for (let i = at - 1; i >= from; i--) {
    if (text[i] === '\n') return true
    if (text[i] !== ' ' && text[i] !== '\t') return false
  }
  return true
}

/** Returns the fence that is open after a line with the fence `marker`, or null if none is open. */
export function nextFence(open: string | null, marker: string, info: string): string | null {
  if (open === null) return marker[0] === '`' && info.includes('`') ? null : marker
  const closes = marker[0] === open[0] && marker.length >= open.length && info.trim() === ''
  return closes ? null : open
}

function attribute(attributes: string, key: string): string | null {
  const quoted = new RegExp(` ${key}=("(?:[^"\\\\]|\\\\.)*")`).exec(attributes)?.[1]
  if (quoted === undefined) return null
  try {
    return JSON.parse(quoted) as string
  } catch {
    return quoted.slice(1, -1)
  }
}

/** A number of 16 or more digits, which may lose precision when it is parsed. */
const LONG_NUMBER = /\d{16,}/

function readCall(tag: string, body: string): ToolCall | null {
  if (tag === 'search') return { name: 'search', arguments: body.trim(), id: null }
  const fn = /^\s*<function=([\w.-]{1,64})>/.exec(body)
  if (fn !== null) return readFunction(fn[1] as string, body.slice(fn[0].length))
  let value: unknown
  try {
    value = JSON.parse(body)
  } catch {
    return null
  }
  if (typeof value !== 'object' || value === null) return null
  const { name, arguments: args, parameters, id, ...rest } = value as Record<string, unknown>
  if (typeof name !== 'string' || Object.keys(rest).length > 0) return null
  const given = args ?? parameters
  const shown = typeof given === 'string' ? given : (JSON.stringify(given) ?? '')
  return {
    name,
    arguments: LONG_NUMBER.test(body) ? body.trim() : shown,
    id: typeof id === 'string' ? id : null,
  }
}

/** `<function=name>` with JSON (Llama), or with `<parameter=key>` elements (Qwen3-Coder). */
function readFunction(name: string, body: string): ToolCall {
  const inside = body.replace(/<\/function>\s*$/, '')
  const found: Record<string, string> = {}
  const opening = /<parameter=([\w.-]{1,64})>/g
  for (let match = opening.exec(inside); match !== null; match = opening.exec(inside)) {
    const end = inside.indexOf('</parameter>', opening.lastIndex)
    if (end < 0) break
    found[match[1] as string] = inside.slice(opening.lastIndex, end).replace(/^\n|\n$/g, '')
    opening.lastIndex = end
  }
  const isListed = Object.keys(found).length > 0
  return { name, arguments: isListed ? JSON.stringify(found) : inside.trim(), id: null }
}
