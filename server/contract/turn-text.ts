/** Chat turns as text, for engines, judges and pages, in the format of the Python client's `rewardops.turns`. */

/** A chat message. Further fields, such as `tool_calls`, are kept. */
export interface ChatTurn {
  role: string
  /** A text, or parts in OpenAI's format: texts, images and others. */
  content: TurnContent
  [field: string]: unknown
}

/** A message as a trainer sends it; a tool call may have no content. */
export interface SentTurn {
  role: string
  content?: TurnContent | null | undefined
}

/** A part of a message: `{type: 'text', text}`, `{type: 'image_url', image_url: {url}}` or a part of another type. */
export interface TurnPart {
  type: string
  [field: string]: unknown
}
export type TurnContent = string | TurnPart[]

/**
 * Returns the content of a turn as text. Parts that are not text become the name of their type, such as `<image_url>`.
 */
export function contentText(content: TurnContent | null | undefined): string {
  if (typeof content === 'string') return content
  return (content ?? [])
    .map(({ type, text }) => (typeof text === 'string' ? text : `<${type}>`))
    .join('')
}

/** Returns the type of the first part that is not text, in any of the turns, or null if there is none. */
export function mediaIn(
  turns: readonly { content?: TurnContent | null | undefined }[],
): string | null {
  for (const { content } of turns) {
    if (!Array.isArray(content)) continue
    const part = content.find(({ text }) => typeof text !== 'string')
    if (part !== undefined) return part.type
  }
  return null
}

type TurnFields = object & {
  content?: TurnContent | null | undefined
  reasoning_content?: unknown
  reasoning?: unknown
  thinking?: unknown
  tool_calls?: unknown
  function_call?: unknown
}

/** A tool call. `arguments` is JSON text, or invalid JSON as the model wrote it. */
export interface ToolCall {
  name: string
  arguments: string
  id: string | null
}

/** Writes a turn as text: reasoning in `<think>`, content, and each tool call in `<tool_call>`. */
export function turnText(turn: TurnFields): string {
  return writtenTurn(turn).text
}

interface Written {
  text: string
  /** The offset of the message's content, in UTF-16 code units. */
  contentAt: number
}

function writtenTurn(turn: TurnFields): Written {
  const { content } = turn
  const reasoning = [turn.reasoning_content, turn.reasoning, turn.thinking].find(
    (text) => typeof text === 'string' && text !== '',
  )
  const before = reasoning === undefined ? '' : `<think>\n${reasoning}\n</think>`
  const blocks = [before, contentText(content), ...toolCallsOf(turn).map(toolCallText)]
  const text = blocks.filter((block) => block !== '').join('\n')
  return { text, contentAt: before === '' ? 0 : before.length + 1 }
}

/**
 * Writes a response as text. Messages become blocks, joined by newlines. A tool result becomes a `<tool_response>`
 * block. A message with any role other than assistant or tool, or an assistant message directly after another one,
 * becomes a `<turn>` block. A single assistant message with neither tool calls nor reasoning is written as its content,
 * unchanged.
 */
export function responseText(response: string | readonly ResponseTurn[]): string {
  if (typeof response === 'string') return response
  return writtenTurns(response)
    .map(({ text }) => text)
    .join('\n')
}

/** Returns the range of each message's content in the response's text, in UTF-16 code units; `end` is exclusive. */
export function contentRanges(
  response: string | readonly ResponseTurn[],
): { start: number; end: number }[] {
  if (typeof response === 'string') return [{ start: 0, end: response.length }]
  let at = 0
  return writtenTurns(response).map(({ text, contentAt }, i) => {
    const start = at + contentAt
    at += text.length + 1
    return { start, end: start + contentText(response[i]?.content).length }
  })
}

function writtenTurns(response: readonly ResponseTurn[]): Written[] {
  let before = ''
  return response.map((turn) => {
    const { role, name, tool_call_id: id } = turn
    const { text, contentAt } = writtenTurn(turn)
    const isNew = role === 'assistant' && before !== 'assistant'
    before = role
    if (isNew) return { text, contentAt }
    const block =
      role === 'tool'
        ? toolResultText(text, idText(name), idText(id))
        : `<turn role=${JSON.stringify(role)}>\n${text}\n</turn>`
    return { text: block, contentAt: block.indexOf('\n') + 1 + contentAt }
  })
}

interface ResponseTurn extends TurnFields {
  role: string
  name?: unknown
  tool_call_id?: unknown
}

function idText(value: unknown): string | null {
  return typeof value === 'string' && value !== '' ? value : null
}

/** Returns the tool calls of a turn in OpenAI's format, including the older `function_call`. */
export function toolCallsOf({ tool_calls: calls, function_call: single }: TurnFields): ToolCall[] {
  const given: unknown[] = [...(Array.isArray(calls) ? calls : []), ...(single ? [single] : [])]
  return given.map((call) => {
    const outer = fieldsOf(call)
    const { name, arguments: args } = 'function' in outer ? fieldsOf(outer.function) : outer
    return {
      name: typeof name === 'string' ? name : '',
      arguments: typeof args === 'string' ? args : (JSON.stringify(args) ?? 'null'),
      id: typeof outer.id === 'string' ? outer.id : null,
    }
  })
}

/**
 * Counts the failed tool calls in a response. Returns null if the response is plain text. A call failed if its
 * arguments are not JSON, or if its result reports an error in one of these forms: `is_error: true` (Anthropic; MCP
 * writes `isError`), `status: "error"` (LangChain), or a content that is only an object with an `error`, as JSON or as
 * TRL's `{'error': …}`. A call without a result did not fail.
 */
export function failedToolCalls(response: string | readonly ResponseTurn[]): number | null {
  if (typeof response === 'string') return null
  let failed = 0
  for (const turn of response) {
    for (const call of toolCallsOf(turn)) if (!isReadableCall(call)) failed++
    if (turn.role === 'tool' && isFailedResult(turn)) failed++
    else if (Array.isArray(turn.content)) {
      failed += turn.content.filter(
        (part) => part.type === 'tool_result' && reportsError(part),
      ).length
    }
  }
  return Math.min(failed, MAX_FAILED_TOOL_CALLS)
}

/** The largest value of the column `failed_tool_calls`, a smallint. */
const MAX_FAILED_TOOL_CALLS = 32_767

/** Whether a tool call has no arguments, or arguments that are valid JSON. */
export function isReadableCall({ arguments: args }: ToolCall): boolean {
  return args === '' || isJson(args)
}

/** Whether a message of the role `tool` reports that its call failed. */
export function isFailedResult(turn: TurnFields): boolean {
  return reportsError(turn) || isErrorText(contentText(turn.content).trim())
}

function reportsError(result: object): boolean {
  const { is_error: isError, isError: isMcpError, status } = fieldsOf(result)
  return isError === true || isMcpError === true || status === 'error'
}

function isErrorText(text: string): boolean {
  // TRL writes the exception of a tool as a Python dict.
  if (/^\{'error': ['"]/.test(text)) return text.endsWith('}')
  if (!text.startsWith('{') || !text.includes('"error"')) return false
  const { error } = fieldsOf(jsonOf(text))
  return typeof error === 'string' ? error !== '' : typeof error === 'object' && error !== null
}

/** Writes a tool call as a `<tool_call>` block. */
export function toolCallText({ name, arguments: args, id }: ToolCall): string {
  const fields = [
    `"name": ${JSON.stringify(name)}`,
    `"arguments": ${isJson(args) ? args : JSON.stringify(args)}`,
    ...(id === null ? [] : [`"id": ${JSON.stringify(id)}`]),
  ]
  return `<tool_call>\n{${fields.join(', ')}}\n</tool_call>`
}

/** Writes the result of a tool as a `<tool_response>` block. */
export function toolResultText(result: string, name: string | null, id: string | null): string {
  const named = [
    name === null ? '' : ` name=${JSON.stringify(name)}`,
    id === null ? '' : ` tool_call_id=${JSON.stringify(id)}`,
  ].join('')
  return `<tool_response${named}>\n${result}\n</tool_response>`
}

function fieldsOf(value: unknown): Record<string, unknown> {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {}
}

function isJson(text: string): boolean {
  return jsonOf(text) !== undefined
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
