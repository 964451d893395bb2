'use client'

import { CornerDownRight, Wrench } from 'lucide-react'
import { createContext, Fragment, memo, useContext, useState } from 'react'
import { literalPattern } from '../../server/contract/sample-filter.ts'
import {
  type ChatTurn,
  type ToolCall,
  toolCallsOf,
  toolPieces,
} from '../../server/contract/turn-text.ts'
import { formatCount } from '../format/numbers.ts'
import { foldAt, textParts } from '../format/text.ts'

/** The search term to highlight; null: none. */
export const SearchedText = createContext<string | null>(null)

/** A rollout text: wrapped, folded when long, with invisible characters named. */
export function RolloutText({ text, maxChars }: { text: string; maxChars: number }) {
  const searched = useContext(SearchedText)
  // Search matches are never folded away.
  const [unfolded, setUnfolded] = useState(
    () => searched !== null && text.search(literalPattern(searched)) >= foldAt(text, maxChars),
  )
  if (text === '') return <p className="text-ink-3">Empty.</p>
  const cut = unfolded ? text.length : foldAt(text, maxChars)
  const folds = foldAt(text, maxChars) < text.length
  return (
    <>
      <Shown text={cut === text.length ? text : text.slice(0, cut)} />
      {folds && (
        <button
          type="button"
          onClick={() => setUnfolded(!unfolded)}
          className="num mt-1 text-xs text-accent hover:underline"
        >
          {unfolded ? 'Show less' : `Show all ${formatCount(text.length)} characters`}
        </button>
      )}
    </>
  )
}

const Shown = memo(function Shown({ text }: { text: string }) {
  return (
    <div className="rounded-md bg-sunken px-3 py-2 font-mono text-xs leading-[19px] break-words whitespace-pre-wrap [overflow-wrap:anywhere]">
      <Parts text={text} />
    </div>
  )
})

/** Text with tags for invisible characters; never parsed as markup. */
export function Parts({ text }: { text: string }) {
  const searched = useContext(SearchedText)
  if (searched !== null) {
    return marked(text, searched).map(({ piece, found }, i) =>
      found ? (
        // biome-ignore lint/suspicious/noArrayIndexKey: pieces of a text do not move
        <mark key={i} className="rounded-[2px] bg-warn-soft text-ink ring-1 ring-warn">
          <Seen text={piece} />
        </mark>
      ) : (
        // biome-ignore lint/suspicious/noArrayIndexKey: pieces of a text do not move
        <Fragment key={i}>
          <Seen text={piece} />
        </Fragment>
      ),
    )
  }
  return <Seen text={text} />
}

/** The maximum number of highlights per text. */
const MAX_MARKS = 500

function marked(text: string, searched: string): { piece: string; found: boolean }[] {
  const pieces: { piece: string; found: boolean }[] = []
  let from = 0
  for (const match of text.matchAll(literalPattern(searched))) {
    if (pieces.length > MAX_MARKS * 2) break
    if (match.index > from) pieces.push({ piece: text.slice(from, match.index), found: false })
    pieces.push({ piece: match[0], found: true })
    from = match.index + match[0].length
  }
  if (from < text.length) pieces.push({ piece: text.slice(from), found: false })
  return pieces
}

function Seen({ text }: { text: string }) {
  return textParts(text).map((part, i) =>
    'text' in part ? (
      part.text
    ) : (
      <span
        // biome-ignore lint/suspicious/noArrayIndexKey: parts of a text do not move
        key={i}
        title={part.title}
        className="mx-px rounded-[3px] bg-warn-soft px-1 text-2xs text-warn"
      >
        {part.mark}
      </span>
    ),
  )
}

/** A prompt: a text, or messages with roles. */
export function PromptText({ prompt }: { prompt: string | ChatTurn[] }) {
  if (typeof prompt === 'string') return <RolloutText text={prompt} maxChars={1_600} />
  return (
    <ol className="space-y-2">
      {prompt.map((message, i) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: messages of a prompt do not move
        <li key={i}>
          <Message message={message} />
        </li>
      ))}
    </ol>
  )
}

/** A whole message: its text, tool calls, and all other fields. */
function Message({ message }: { message: ChatTurn }) {
  const { role, content, tool_calls: _, function_call: __, ...rest } = message
  const calls = toolCallsOf(message)
  const isResult = role === 'tool'
  const name = isResult && typeof rest.name === 'string' ? rest.name : null
  const id = isResult && typeof rest.tool_call_id === 'string' ? rest.tool_call_id : null
  const others = Object.entries(rest).filter(
    ([key, value]) =>
      value !== null &&
      !(name !== null && key === 'name') &&
      !(id !== null && key === 'tool_call_id'),
  )
  if (isResult) {
    return (
      <>
        <ToolResult name={name} id={id} text={content} />
        <OtherFields fields={others} />
      </>
    )
  }
  return (
    <>
      <p className="mb-0.5 text-2xs text-ink-3">{role}</p>
      <OtherFields fields={others} />
      {(content !== '' || (calls.length === 0 && others.length === 0)) && (
        <RolloutText text={content} maxChars={1_600} />
      )}
      {calls.map((call, i) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: calls of a message do not move
        <ToolCallBlock key={i} call={call} />
      ))}
    </>
  )
}

function OtherFields({ fields }: { fields: [string, unknown][] }) {
  return fields.map(([key, value]) => (
    <div key={key} className="mb-1">
      <p className="mb-0.5 font-mono text-2xs text-ink-3">{key}</p>
      <JsonValue value={value} />
    </div>
  ))
}

/** A response: its text, with tool calls and results as separate blocks. */
export function ResponseText({ text }: { text: string }) {
  const pieces = toolPieces(text)
  return (
    <div className="space-y-2">
      {pieces.map((piece, i) => {
        if (piece.kind === 'text') {
          // biome-ignore lint/suspicious/noArrayIndexKey: pieces of a text do not move
          return <RolloutText key={i} text={piece.text} maxChars={4_000} />
        }
        return piece.kind === 'call' ? (
          // biome-ignore lint/suspicious/noArrayIndexKey: pieces of a text do not move
          <ToolCallBlock key={i} call={piece} />
        ) : (
          // biome-ignore lint/suspicious/noArrayIndexKey: pieces of a text do not move
          <ToolResult key={i} name={piece.name} id={piece.id} text={piece.text} />
        )
      })}
    </div>
  )
}

function ToolCallBlock({ call }: { call: ToolCall }) {
  return (
    <div className="mt-1.5" data-tool-call={call.name}>
      <ToolHead icon={Wrench} word="tool call" name={call.name} id={call.id} />
      <RolloutText text={indented(call.arguments)} maxChars={1_600} />
    </div>
  )
}

function ToolResult({ name, id, text }: { name: string | null; id: string | null; text: string }) {
  return (
    <div data-tool-result={name ?? ''}>
      <ToolHead icon={CornerDownRight} word="tool result" name={name} id={id} />
      <RolloutText text={text} maxChars={1_600} />
    </div>
  )
}

function ToolHead({
  icon: Icon,
  word,
  name,
  id,
}: {
  icon: typeof Wrench
  word: string
  name: string | null
  id: string | null
}) {
  return (
    <p className="mb-0.5 flex items-center gap-1.5 text-2xs text-ink-3">
      <Icon size={11} aria-hidden />
      {word}
      {name !== null && <span className="font-mono text-ink-2">{name || 'unnamed'}</span>}
      {id !== null && <span className="truncate font-mono">{id}</span>}
    </p>
  )
}

/** Arguments as indented JSON; invalid JSON stays as generated. */
function indented(json: string): string {
  // JSON.parse rounds long integers, so such arguments stay as generated.
  if (/\d{16,}/.test(json)) return json
  try {
    const value: unknown = JSON.parse(json)
    return typeof value === 'string' ? value : JSON.stringify(value, null, 2)
  } catch {
    return json
  }
}

/** Any JSON: plain for a single value, otherwise indented. */
export function JsonValue({ value }: { value: unknown }) {
  if (typeof value === 'string' && value.length <= 80 && !value.includes('\n')) {
    return (
      <span className="font-mono text-xs leading-5 break-words">
        {value === '' ? <span className="text-ink-3">empty string</span> : <Parts text={value} />}
      </span>
    )
  }
  if (typeof value === 'string') return <RolloutText text={value} maxChars={1_200} />
  if (typeof value === 'object' && value !== null) {
    return <RolloutText text={JSON.stringify(value, null, 2)} maxChars={1_200} />
  }
  return <span className="num font-mono text-xs leading-5">{String(value)}</span>
}
