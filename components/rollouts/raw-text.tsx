'use client'

import { memo, useContext, useEffect, useRef, useState } from 'react'
import { formatCount } from '../format/numbers.ts'
import { foldAt } from '../format/text.ts'
import { MarkedText } from './marked-text.tsx'
import { Reveal, useMarks } from './rollout-context.ts'
import { marksIn, type TextMark } from './text-marks.ts'

/** A text as stored, without Markdown: wrapped, folded when long, and with invisible characters named. */
export function RolloutText({
  text,
  maxChars,
  marks: given,
  at = 0,
  bare = false,
}: {
  text: string
  maxChars: number
  marks?: readonly TextMark[]
  /** The position of the text in the response, for jumps. */
  at?: number
  /** Whether the text has no background, because the block around it has one. */
  bare?: boolean
}) {
  const marks = useMarks(text, given)
  const reveal = useContext(Reveal)
  const fold = foldAt(text, maxChars)
  const [unfolded, setUnfolded] = useState(() =>
    marks.some(({ kind, start }) => kind === 'search' && start >= fold),
  )
  useEffect(() => {
    if (reveal !== null && reveal.at - at >= fold) setUnfolded(true)
  }, [reveal, at, fold])
  if (text === '') return <p className="text-ink-3">Empty.</p>
  const cut = unfolded ? text.length : fold
  return (
    <>
      <Shown
        text={cut === text.length ? text : text.slice(0, cut)}
        marks={marks}
        look={bare ? '' : 'rounded-md bg-sunken px-3 py-2'}
      />
      {fold < text.length && (
        <UnfoldButton
          unfolded={unfolded}
          chars={text.length}
          onToggle={() => setUnfolded(!unfolded)}
        />
      )}
    </>
  )
}

export function UnfoldButton({
  unfolded,
  chars,
  onToggle,
}: {
  unfolded: boolean
  chars: number
  onToggle(): void
}) {
  const isPressed = useRef(false)
  return (
    <button
      type="button"
      // The text is toggled on press instead of on click, because chunks above may change their height before the
      // release, and the browser then fires no click.
      onPointerDown={({ pointerType, button }) => {
        if (pointerType !== 'mouse' || button !== 0) return
        isPressed.current = true
        // The click event follows the release immediately, so the flag is reset after it.
        const release = () => setTimeout(() => (isPressed.current = false))
        addEventListener('pointerup', release, { once: true })
        onToggle()
      }}
      onClick={() => {
        if (!isPressed.current) onToggle()
      }}
      className="num mt-1 text-xs text-accent hover:underline"
    >
      {unfolded ? 'Show less' : `Show all ${formatCount(chars)} characters`}
    </button>
  )
}

const Shown = memo(function Shown({
  text,
  marks,
  look,
}: {
  text: string
  marks: readonly TextMark[]
  look: string
}) {
  return (
    <div
      className={`font-mono text-xs leading-[19px] break-words whitespace-pre-wrap [overflow-wrap:anywhere] ${look}`}
    >
      <MarkedText text={text} marks={marksIn(marks, 0, text.length)} />
    </div>
  )
})

/** Text that is shown as it is, without Markdown, in the font of rendered Markdown. */
export function PlainText({ text, marks }: { text: string; marks: readonly TextMark[] }) {
  return (
    <div className="text-sm leading-[21px] break-words whitespace-pre-wrap [overflow-wrap:anywhere]">
      <MarkedText text={text.replace(/\n+$/, '')} marks={marks} />
    </div>
  )
}

/** Text with search matches and named invisible characters; never parsed as markup. */
export function Parts({ text }: { text: string }) {
  return <MarkedText text={text} marks={useMarks(text)} />
}

export function JsonValue({ value }: { value: unknown }) {
  if (typeof value === 'string' && value.length <= 80 && !value.includes('\n')) {
    return (
      <span className="font-mono text-xs leading-5 break-words">
        {value === '' ? <span className="text-ink-3">Empty string</span> : <Parts text={value} />}
      </span>
    )
  }
  if (typeof value === 'string') return <RolloutText text={value} maxChars={1_200} />
  if (typeof value === 'object' && value !== null) {
    return <RolloutText text={JSON.stringify(value, null, 2)} maxChars={1_200} />
  }
  return <span className="num font-mono text-xs leading-5">{String(value)}</span>
}
