'use client'

import { ImageIcon } from 'lucide-react'
import { useMemo } from 'react'
import type { PartRewards } from '../../server/contract/trainer.ts'
import {
  type ChatTurn,
  contentText,
  isFailedResult,
  type TurnContent,
  toolCallsOf,
} from '../../server/contract/turn-text.ts'
import { formatCount, formatSigned } from '../format/numbers.ts'
import { type ContentPart, contentParts } from './content-parts.ts'
import { rewardsByMessage, type ShownTokens, spanMarks, tokenMarks } from './part-rewards.ts'
import { JsonValue } from './raw-text.tsx'
import { answerMark, marksIn, type TextMark } from './text-marks.ts'
import { TextView } from './text-view.tsx'
import { ToolCallBlock, ToolResultBlock } from './tool-blocks.tsx'

/** Messages longer than this are folded. */
const MAX_CHARS = 1_600

export function PromptText({ prompt }: { prompt: string | readonly ChatTurn[] }) {
  return typeof prompt === 'string' ? (
    <TextView text={prompt} maxChars={MAX_CHARS} />
  ) : (
    <Messages messages={prompt} />
  )
}

/**
 * Messages with roles: their texts, images, tool calls, tool results, and all other fields. A response also shows its
 * turn and span rewards, and the extracted answer in the last message that contains it.
 */
export function Messages({
  messages,
  rewards = null,
  tokens = null,
  extracted = null,
}: {
  messages: readonly ChatTurn[]
  rewards?: PartRewards | null
  tokens?: ShownTokens | null
  extracted?: string | null
}) {
  // The arrays of marks are kept between renders, because a text is rendered again when its array changes.
  const marked = useMemo(() => {
    const rewardsOf = rewardsByMessage(rewards)
    const texts = messages.map(({ content }) => contentText(content))
    const answered = texts.findLastIndex((text) => answerMark(text, extracted) !== null)
    return texts.map((text, i): MarkedMessage => {
      const { score, spans } = rewardsOf(i)
      const answer = i === answered ? answerMark(text, extracted) : null
      const given = [...tokenMarks(tokens, i, text), ...spanMarks(spans, text)]
      return { score, marks: answer === null ? given : [...given, answer] }
    })
  }, [messages, rewards, tokens, extracted])
  return (
    <ol className="space-y-3">
      {messages.map((message, i) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: messages do not move
        <li key={i} data-message={message.role}>
          <Message message={message} {...(marked[i] as MarkedMessage)} />
        </li>
      ))}
    </ol>
  )
}

export function TurnScore({ score }: { score: number }) {
  return (
    <span
      className={`num ml-2 ${score > 0 ? 'text-ok' : score < 0 ? 'text-bad' : 'text-ink-2'}`}
      title="Reward of this message"
      data-turn-score={score}
    >
      {formatSigned(score)}
    </span>
  )
}

interface MarkedMessage {
  score: number | null
  marks: readonly TextMark[]
}

function Message({ message, score, marks }: { message: ChatTurn } & MarkedMessage) {
  const { role, content, tool_calls: _, function_call: __, ...rest } = message
  const calls = toolCallsOf(message)
  const parts = contentParts(content)
  const isResult = role === 'tool'
  const name = isResult && typeof rest.name === 'string' ? rest.name : null
  const id = isResult && typeof rest.tool_call_id === 'string' ? rest.tool_call_id : null
  const others = Object.entries(rest).filter(
    ([key, value]) =>
      value !== null &&
      !(name !== null && key === 'name') &&
      !(id !== null && key === 'tool_call_id'),
  )
  const isEmpty = parts.length === 0 && calls.length === 0 && others.length === 0
  return (
    <>
      {(!isResult || score !== null) && (
        <p className="mb-0.5 text-2xs text-ink-3">
          {role}
          {score !== null && <TurnScore score={score} />}
        </p>
      )}
      <div className="space-y-2">
        {!isResult && <OtherFields fields={others} />}
        {isEmpty && <p className="text-ink-3">Empty.</p>}
        {parts.map((part, i) =>
          part.kind === 'text' && isResult ? (
            <ToolResultBlock
              // biome-ignore lint/suspicious/noArrayIndexKey: parts of a message do not move
              key={i}
              {...{ name, id, marks, text: part.text, isFailed: isFailedResult(message) }}
            />
          ) : (
            <Part
              // biome-ignore lint/suspicious/noArrayIndexKey: parts of a message do not move
              key={i}
              part={part}
              isResponse={role === 'assistant'}
              marks={partMarks(content, i, marks)}
            />
          ),
        )}
        {isResult && <OtherFields fields={others} />}
        {calls.map((call, i) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: calls of a message do not move
          <ToolCallBlock key={i} call={call} />
        ))}
      </div>
    </>
  )
}

/** Returns the marks of one part of a message, with positions relative to the part instead of the whole text. */
function partMarks(content: TurnContent, at: number, marks: readonly TextMark[]) {
  if (typeof content === 'string' || marks.length === 0) return marks
  const start = contentText(content.slice(0, at)).length
  return marksIn(marks, start, start + contentText(content.slice(at, at + 1)).length)
}

function Part({
  part,
  isResponse,
  marks,
}: {
  part: ContentPart
  isResponse: boolean
  marks: readonly TextMark[]
}) {
  if (part.kind === 'text') {
    return <TextView text={part.text} maxChars={MAX_CHARS} isResponse={isResponse} marks={marks} />
  }
  if (part.kind === 'other') return <JsonValue value={part.value} />
  if (part.source !== null) {
    return (
      // biome-ignore lint/performance/noImgElement: the service stores the image as it was sent, without other sizes
      <img
        src={part.source}
        alt="Attached to the message"
        loading="lazy"
        decoding="async"
        className="max-h-80 max-w-full rounded-md border"
      />
    )
  }
  return (
    <p className="flex items-start gap-1.5 rounded-md border border-dashed border-line-strong px-2.5 py-1.5 text-xs text-ink-2">
      <ImageIcon size={13} aria-hidden className="mt-0.5 shrink-0 text-ink-3" />
      <span className="min-w-0 font-mono break-words [overflow-wrap:anywhere]">
        {part.address.slice(0, 400)}
        {part.address.length > 400 && `… ${formatCount(part.address.length)} characters`}
      </span>
    </p>
  )
}

function OtherFields({ fields }: { fields: [string, unknown][] }) {
  return fields.map(([key, value]) => (
    <div key={key}>
      <p className="mb-0.5 font-mono text-2xs text-ink-3">{key}</p>
      <JsonValue value={value} />
    </div>
  ))
}
