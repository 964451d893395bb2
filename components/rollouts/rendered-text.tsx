'use client'

import { Brain, ChevronRight } from 'lucide-react'
import { memo, useContext, useEffect, useMemo, useState } from 'react'
import { formatCount } from '../format/numbers.ts'
import { LazyPiece } from './lazy-piece.tsx'
import { type MarkdownPiece, markdownPieces } from './markdown-pieces.ts'
import { UnfoldButton } from './raw-text.tsx'
import { innerBlocks, type RolloutBlock, rolloutBlocks } from './rollout-blocks.ts'
import { Reveal, useMarks } from './rollout-context.ts'
import { marksIn, type TextMark } from './text-marks.ts'
import type { TextViewProps } from './text-view.tsx'
import { ToolCallBlock, ToolResultBlock, UnreadCallBlock } from './tool-blocks.tsx'

/** Number of characters rendered when a text opens. Later characters are rendered when they come into view. */
const EAGER_CHARS = 800
/** Texts longer than this are not rendered. */
const MAX_RENDERED_CHARS = 2_000_000

export const RenderedText = memo(function RenderedText({
  text,
  maxChars,
  isResponse = false,
  marks: given,
}: TextViewProps) {
  const marks = useMarks(text, given)
  const isTooLong = text.length > MAX_RENDERED_CHARS
  const blocks = useMemo(
    () => (isTooLong ? [] : rolloutBlocks(text, isResponse)),
    [text, isResponse, isTooLong],
  )
  if (text.trim() === '') return <p className="text-ink-3">{text === '' ? 'Empty.' : 'Blank.'}</p>
  if (isTooLong) {
    return (
      <p className="text-ink-3">
        Texts of more than {formatCount(MAX_RENDERED_CHARS)} characters are not rendered. Use the
        raw view.
      </p>
    )
  }
  return <Blocks text={text} blocks={blocks} marks={marks} maxChars={maxChars} />
})

type Item = { block: RolloutBlock; piece: MarkdownPiece | null; chars: number }

function Blocks({
  text,
  blocks,
  marks,
  maxChars,
}: {
  text: string
  blocks: readonly RolloutBlock[]
  marks: readonly TextMark[]
  maxChars: number
}) {
  const reveal = useContext(Reveal)
  const items = useMemo(() => itemsOf(text, blocks), [text, blocks])
  const visible = useMemo(() => countVisible(items, maxChars), [items, maxChars])
  const folded = items[visible]
  const foldedAt = folded === undefined ? Number.POSITIVE_INFINITY : startOf(folded)
  const [unfolded, setUnfolded] = useState(() =>
    marks.some(({ kind, start }) => kind === 'search' && start >= foldedAt),
  )
  useEffect(() => {
    if (reveal !== null && reveal.at >= foldedAt) setUnfolded(true)
  }, [reveal, foldedAt])
  const shown = unfolded ? items : items.slice(0, visible)
  let before = 0
  const chars = (blocks.at(-1)?.end ?? 0) - (blocks[0]?.start ?? 0)
  return (
    <div className="space-y-2.5">
      {shown.map((item) => {
        const { block, piece } = item
        const isEager =
          before < EAGER_CHARS ||
          (reveal !== null && reveal.at >= startOf(item) && reveal.at < endOf(item))
        before += item.chars
        return piece === null ? (
          <div key={block.start} data-start={block.start}>
            <Block text={text} block={block} marks={marks} />
          </div>
        ) : (
          <LazyPiece key={piece.start} text={text} piece={piece} marks={marks} isEager={isEager} />
        )
      })}
      {folded !== undefined && (
        <UnfoldButton unfolded={unfolded} chars={chars} onToggle={() => setUnfolded(!unfolded)} />
      )}
    </div>
  )
}

const startOf = ({ block, piece }: Item) => piece?.start ?? block.start
const endOf = ({ block, piece }: Item) => piece?.end ?? block.end

function itemsOf(text: string, blocks: readonly RolloutBlock[]): Item[] {
  return blocks.flatMap((block): Item[] => {
    if (block.kind !== 'text') {
      const chars = block.kind === 'think' ? 0 : Math.min(1_600, block.end - block.start)
      return [{ block, piece: null, chars }]
    }
    return markdownPieces(text, block.start, block.end).map((piece) => ({
      ...{ block, piece, chars: piece.end - piece.start },
    }))
  })
}

/** The number of items before the fold. A short remainder is not folded. */
function countVisible(items: readonly Item[], maxChars: number): number {
  const total = items.reduce((sum, { chars }) => sum + chars, 0)
  if (total <= maxChars * 1.25) return items.length
  let count = 0
  for (let seen = 0; count < items.length && seen < maxChars; count++) {
    seen += items[count]?.chars ?? 0
  }
  return count
}

function Block({
  text,
  block,
  marks,
}: {
  text: string
  block: RolloutBlock
  marks: readonly TextMark[]
}) {
  const { body } = block
  if (block.kind === 'think') return <Think text={text} block={block} marks={marks} />
  if (block.kind === 'answer') {
    return (
      <div className="rounded-md border border-line-strong px-3 py-2" data-answer-block>
        <p className="mb-1 text-2xs text-ink-3">Answer</p>
        <Blocks
          text={text}
          blocks={[{ kind: 'text', ...body, body }]}
          marks={marks}
          maxChars={4_000}
        />
      </div>
    )
  }
  const own = marksIn(marks, body.start, body.end)
  const inside = text.slice(body.start, body.end)
  if (block.kind === 'result') {
    const from = inside.length - inside.trimStart().length
    return (
      <ToolResultBlock
        name={block.name ?? (block.tag === 'tool_response' ? null : block.tag)}
        id={block.id}
        text={inside.trim()}
        marks={marksIn(own, from, inside.length)}
        at={body.start}
      />
    )
  }
  if (block.kind !== 'call') return null
  if (block.call === null) return <UnreadCallBlock text={inside} marks={own} />
  const answer = own.find(({ kind }) => kind === 'answer')
  const extracted = answer === undefined ? null : inside.slice(answer.start, answer.end)
  return <ToolCallBlock call={block.call} extracted={extracted} />
}

function Think({
  text,
  block,
  marks,
}: {
  text: string
  block: RolloutBlock & { kind: 'think' }
  marks: readonly TextMark[]
}) {
  const { body, isClosed } = block
  const own = marks.filter(({ start, end }) => start < body.end && end > body.start)
  const reveal = useContext(Reveal)
  // Reasoning without an end tag is unfolded, because the response has no other text.
  const [open, setOpen] = useState(() => !isClosed || own.some(({ kind }) => kind === 'search'))
  useEffect(() => {
    if (reveal !== null && reveal.at >= block.start && reveal.at < block.end) setOpen(true)
  }, [reveal, block])
  const inner = useMemo(() => (open ? innerBlocks(text, body) : []), [open, text, body])
  const length = text.slice(body.start, body.end).trim().length
  return (
    <div data-think={isClosed ? 'closed' : 'open'}>
      <button
        type="button"
        aria-expanded={open}
        onClick={() => setOpen(!open)}
        className="flex h-7 w-full items-center gap-2 rounded-md bg-sunken px-2.5 text-left text-xs text-ink-2 hover:bg-hover hover:text-ink quick transition-colors"
      >
        <ChevronRight
          size={13}
          aria-hidden
          className={`text-ink-3 quick transition-transform ${open ? 'rotate-90' : ''}`}
        />
        <Brain size={13} aria-hidden className="text-ink-3" />
        Reasoning
        <span className="num text-ink-3">{formatCount(length)} characters</span>
        {own.some(({ kind }) => kind === 'answer') && !open && (
          <span className="text-ink-3">Contains the answer</span>
        )}
        {!isClosed && <span className="ml-auto text-warn">No end tag</span>}
      </button>
      {open && length > 0 && (
        <div className="mt-2 border-l-2 pl-3.5 text-ink-2">
          <Blocks text={text} blocks={inner} marks={marks} maxChars={8_000} />
        </div>
      )}
    </div>
  )
}
