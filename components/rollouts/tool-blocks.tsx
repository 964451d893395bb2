'use client'

import { CornerDownRight, type LucideIcon, Wrench } from 'lucide-react'
import type { ReactNode } from 'react'
import { isReadableCall, type ToolCall } from '../../server/contract/turn-text.ts'
import { RolloutText } from './raw-text.tsx'
import { answerMark, type TextMark } from './text-marks.ts'

const NO_MARKS: readonly TextMark[] = []
const UNREADABLE = 'Not valid JSON'

/** A tool call with its arguments. `extracted` is the answer if it was found in the arguments. */
export function ToolCallBlock({
  call,
  extracted = null,
}: {
  call: ToolCall
  extracted?: string | null
}) {
  const text = indented(call.arguments)
  const mark = answerMark(text, extracted)
  return (
    <Block
      icon={Wrench}
      word="Tool call"
      name={call.name}
      id={call.id}
      attribute="data-tool-call"
      note={isReadableCall(call) ? undefined : UNREADABLE}
    >
      <RolloutText bare text={text} maxChars={1_600} marks={mark === null ? NO_MARKS : [mark]} />
    </Block>
  )
}

export function UnreadCallBlock({ text, marks }: { text: string; marks: readonly TextMark[] }) {
  return (
    <Block
      icon={Wrench}
      word="Tool call"
      name={null}
      id={null}
      attribute="data-tool-call"
      note={UNREADABLE}
    >
      <RolloutText bare text={text} maxChars={1_600} marks={marks} />
    </Block>
  )
}

/** The result of a tool. `isFailed` tells whether its message reports a failed call. */
export function ToolResultBlock({
  name,
  id,
  text,
  isFailed = false,
  marks = NO_MARKS,
  at = 0,
}: {
  name: string | null
  id: string | null
  text: string
  isFailed?: boolean
  marks?: readonly TextMark[]
  at?: number
}) {
  return (
    <Block
      icon={CornerDownRight}
      word="Tool result"
      name={name}
      id={id}
      attribute="data-tool-result"
      note={isFailed ? 'Failed' : undefined}
    >
      <RolloutText bare text={text} maxChars={1_600} marks={marks} at={at} />
    </Block>
  )
}

function Block({
  icon: Icon,
  word,
  name,
  id,
  note,
  attribute,
  children,
}: {
  icon: LucideIcon
  word: string
  name: string | null
  id: string | null
  note: string | undefined
  attribute: 'data-tool-call' | 'data-tool-result'
  children: ReactNode
}) {
  return (
    <div className="rounded-md border bg-sunken" {...{ [attribute]: name ?? '' }}>
      <p className="flex items-center gap-1.5 border-b px-3 py-1 text-2xs text-ink-3">
        <Icon size={11} aria-hidden className="shrink-0" />
        {word}
        {name !== null && <span className="font-mono text-ink">{name || 'Unnamed'}</span>}
        {id !== null && <span className="truncate font-mono">{id}</span>}
        {note && <span className="ml-auto shrink-0 text-warn">{note}</span>}
      </p>
      <div className="px-3 py-1.5">{children}</div>
    </div>
  )
}

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
