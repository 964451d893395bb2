'use client'

import { memo, useState } from 'react'
import { formatCount } from '../format/numbers.ts'
import { foldAt, textParts } from '../format/text.ts'

/** A text of a rollout as it is: wrapped, folded when long, with what cannot be seen named. */
export function RolloutText({ text, most }: { text: string; most: number }) {
  const [unfolded, setUnfolded] = useState(false)
  if (text === '') return <p className="text-ink-3">Empty.</p>
  const cut = unfolded ? text.length : foldAt(text, most)
  const folds = foldAt(text, most) < text.length
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

/** A text with the characters that cannot be seen as small tags; nothing in it is taken as markup. */
export function Parts({ text }: { text: string }) {
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

/** A prompt: a text, or messages with their roles. */
export function PromptText({ prompt }: { prompt: string | { role: string; content: string }[] }) {
  if (typeof prompt === 'string') return <RolloutText text={prompt} most={1_600} />
  return (
    <ol className="space-y-2">
      {prompt.map((message, i) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: messages of a prompt do not move
        <li key={i}>
          <p className="mb-0.5 text-2xs text-ink-3">{message.role}</p>
          <RolloutText
            text={
              typeof message.content === 'string'
                ? message.content
                : JSON.stringify(message.content)
            }
            most={1_600}
          />
        </li>
      ))}
    </ol>
  )
}

/** Any JSON: plain where it is one value, indented where it is not. */
export function JsonValue({ value }: { value: unknown }) {
  if (typeof value === 'string' && value.length <= 80 && !value.includes('\n')) {
    return (
      <span className="font-mono text-xs leading-5 break-words">
        {value === '' ? <span className="text-ink-3">empty string</span> : <Parts text={value} />}
      </span>
    )
  }
  if (typeof value === 'string') return <RolloutText text={value} most={1_200} />
  if (typeof value === 'object' && value !== null) {
    return <RolloutText text={JSON.stringify(value, null, 2)} most={1_200} />
  }
  return <span className="num font-mono text-xs leading-5">{String(value)}</span>
}
