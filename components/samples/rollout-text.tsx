'use client'

import { createContext, Fragment, memo, useContext, useState } from 'react'
import { literalPattern } from '../../server/wire/sample-filter.ts'
import { formatCount } from '../format/numbers.ts'
import { foldAt, textParts } from '../format/text.ts'

/** What was searched for in the texts that are shown: it is marked; null: nothing. */
export const SearchedText = createContext<string | null>(null)

/** A text of a rollout as it is: wrapped, folded when long, with what cannot be seen named. */
export function RolloutText({ text, most }: { text: string; most: number }) {
  const searched = useContext(SearchedText)
  // What was found is never behind the fold.
  const [unfolded, setUnfolded] = useState(
    () => searched !== null && text.search(literalPattern(searched)) >= foldAt(text, most),
  )
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

/** Marks drawn in one text; what stands in it more often is still there, unmarked. */
const MOST_MARKS = 500

function marked(text: string, searched: string): { piece: string; found: boolean }[] {
  const pieces: { piece: string; found: boolean }[] = []
  let from = 0
  for (const match of text.matchAll(literalPattern(searched))) {
    if (pieces.length > MOST_MARKS * 2) break
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
