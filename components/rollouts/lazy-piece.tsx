'use client'

import { lazy, memo, Suspense, useEffect, useMemo, useRef, useState } from 'react'
import { Otherwise } from '../ui/otherwise.tsx'
import { CodeBlock } from './code-block.tsx'
import { type MarkdownPiece, sourceOf } from './markdown-pieces.ts'
import { PlainText } from './raw-text.tsx'
import { scrollerOf } from './scroller.ts'
import { marksIn, type TextMark } from './text-marks.ts'

const RenderedMarkdown = lazy(async () => {
  const { RenderedMarkdown } = await import('./rendered-markdown.tsx')
  return { default: RenderedMarkdown }
})
const RenderedCode = lazy(async () => {
  // Loads the styles of code blocks, which rendered-markdown.tsx imports.
  await import('./rendered-markdown.tsx')
  return { default: CodeBlock }
})

/** A chunk is rendered when it comes this close to the visible part of the text. */
const NEAR_PX = 200

/**
 * A chunk of a text. It is plain text until it comes into view, so that a text of 100 kB opens in a few frames, and
 * the page search of the browser finds all of it.
 */
export const LazyPiece = memo(function LazyPiece({
  text,
  piece,
  marks,
  isEager,
}: {
  text: string
  piece: MarkdownPiece
  /** Marks with positions in the whole text. */
  marks: readonly TextMark[]
  isEager: boolean
}) {
  const place = useRef<HTMLDivElement>(null)
  const [isNear, setNear] = useState(false)
  const isRendered = isEager || isNear
  useEffect(() => {
    if (isRendered || place.current === null) return
    return whenNear(place.current, () => setNear(true))
  }, [isRendered])
  const { start, end, body, kind, language } = piece
  const own = useMemo(() => marksIn(marks, start, end), [marks, start, end])
  const inCode = useMemo(() => marksIn(marks, body.start, body.end), [marks, body])
  const plain = <PlainText text={text.slice(start, end)} marks={own} />
  return (
    <div
      ref={place}
      data-piece={start}
      data-rendered={isRendered && kind !== 'plain'}
      className={
        isRendered ? undefined : '[contain-intrinsic-size:auto_600px] [content-visibility:auto]'
      }
    >
      {isRendered && kind !== 'plain' ? (
        <Otherwise fallback={plain}>
          <Suspense fallback={plain}>
            {kind === 'code' ? (
              <div className="rollout-md">
                <RenderedCode
                  text={text.slice(body.start, body.end).replace(/\n$/, '')}
                  language={language}
                  marks={inCode}
                />
              </div>
            ) : (
              <MarkdownOfPiece text={text} piece={piece} marks={own} />
            )}
          </Suspense>
        </Otherwise>
      ) : (
        plain
      )}
    </div>
  )
})

function MarkdownOfPiece({
  text,
  piece,
  marks,
}: {
  text: string
  piece: MarkdownPiece
  /** Marks with positions relative to the start of the chunk. */
  marks: readonly TextMark[]
}) {
  const { source, at } = sourceOf(text, piece)
  const by = piece.start - at
  const shifted = useMemo(
    () =>
      by === 0
        ? marks
        : marks.map((mark) => ({ ...mark, start: mark.start + by, end: mark.end + by })),
    [marks, by],
  )
  return <RenderedMarkdown source={source} marks={shifted} at={at} />
}

/** One observer per scroll container, because an observer's margin applies only to its own container. */
const observers = new WeakMap<Element | Document, IntersectionObserver>()
const waiting = new WeakMap<Element, () => void>()

function whenNear(element: HTMLElement, run: () => void): () => void {
  const root = scrollerOf(element)
  let observer = observers.get(root ?? document)
  if (observer === undefined) {
    observer = new IntersectionObserver(
      (entries, of) => {
        for (const { isIntersecting, target } of entries) {
          if (!isIntersecting) continue
          of.unobserve(target)
          waiting.get(target)?.()
        }
      },
      { root, rootMargin: `${NEAR_PX}px 0px` },
    )
    observers.set(root ?? document, observer)
  }
  const own = observer
  waiting.set(element, run)
  own.observe(element)
  return () => {
    waiting.delete(element)
    own.unobserve(element)
  }
}
