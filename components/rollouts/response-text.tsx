'use client'

import { Menu } from '@base-ui/react/menu'
import { ArrowDown, ListTree } from 'lucide-react'
import { type RefObject, useEffect, useMemo, useRef, useState } from 'react'
import { MENU_ITEM, MENU_POPUP } from '../ui/action-menu.tsx'
import { Button } from '../ui/button.tsx'
import { Segmented } from '../ui/field.tsx'
import { rolloutBlocks } from './rollout-blocks.ts'
import { Reveal, type Revealed } from './rollout-context.ts'
import { scrollerOf } from './scroller.ts'
import { answerMark, evidenceMarks, isShortened, quotesOf, type TextMark } from './text-marks.ts'
import { type OutlineEntry, outlineOf } from './text-outline.ts'
import { TextView } from './text-view.tsx'
import { setTextView, useTextView } from './use-text-view.ts'

/** Texts shorter than this have no outline. */
const MIN_OUTLINE_CHARS = 2_500

export function ResponseText({
  text,
  extracted = null,
  extra,
  marks: given,
}: {
  text: string
  extracted?: string | null
  /** The reward extra info, which may quote the response. */
  extra?: Record<string, unknown>
  marks?: readonly TextMark[]
}) {
  const view = useTextView()
  const root = useRef<HTMLDivElement>(null)
  const [revealed, setRevealed] = useState<(Revealed & { selector: string | null }) | null>(null)
  const answer = useMemo(() => answerMark(text, extracted), [text, extracted])
  const quotes = useMemo(
    () => ({
      given: extra === undefined ? 0 : quotesOf(extra).length,
      found: extra === undefined ? [] : evidenceMarks(text, extra),
    }),
    [text, extra],
  )
  const marks = useMemo(
    () => [...(answer === null ? [] : [answer]), ...quotes.found, ...(given ?? [])],
    [answer, quotes, given],
  )
  const outline = useMemo(
    () =>
      view === 'raw' || text.length < MIN_OUTLINE_CHARS ? [] : outlineOf(text, rolloutBlocks(text)),
    [text, view],
  )
  useScrollTo(root, revealed)
  const jump = (at: number, selector: string | null) =>
    setRevealed((before) => ({ at, selector, seq: (before?.seq ?? 0) + 1 }))
  const hasBar = extracted !== null || quotes.given > 0 || outline.length > 1
  return (
    <div ref={root}>
      {hasBar && (
        <div
          className={`mb-2 flex min-h-6 flex-wrap items-center gap-x-4 gap-y-1 text-xs text-ink-3 ${
            outline.length > 1 ? 'in-[aside]:sticky in-[aside]:top-0 z-10 bg-surface py-1' : ''
          }`}
        >
          {extracted !== null && (
            <Extracted
              extracted={extracted}
              isFound={answer !== null}
              onJump={() => answer && jump(answer.start, '[data-mark="answer"]')}
            />
          )}
          {quotes.given > 0 && (
            <span className="num">
              {quotes.found.length} of {quotes.given} quotes found
            </span>
          )}
          {outline.length > 1 && (
            <OutlineMenu entries={outline} onOpen={(entry) => jump(entry.start, null)} />
          )}
        </div>
      )}
      <Reveal value={revealed}>
        <TextView text={text} maxChars={4_000} marks={marks} isResponse />
      </Reveal>
    </div>
  )
}

export function TextViewSwitch() {
  return (
    <Segmented
      label="Texts"
      value={useTextView()}
      options={[
        { value: 'rendered', label: 'Rendered' },
        { value: 'raw', label: 'Raw' },
      ]}
      onChange={setTextView}
    />
  )
}

function Extracted({
  extracted,
  isFound,
  onJump,
}: {
  extracted: string
  isFound: boolean
  onJump(): void
}) {
  return (
    <span className="flex min-w-0 items-center gap-1.5" data-extracted={isFound}>
      Extracted
      <span className="max-w-60 truncate font-mono text-ink" title={extracted}>
        {extracted === '' ? 'Empty text' : extracted}
      </span>
      {isFound ? (
        <button
          type="button"
          onClick={onJump}
          title="Scroll to the last occurrence"
          className="flex items-center gap-0.5 text-accent hover:underline"
        >
          <ArrowDown size={12} aria-hidden />
          Show in text
        </button>
      ) : (
        !isShortened(extracted) && <span>Not verbatim in the response</span>
      )}
    </span>
  )
}

function OutlineMenu({
  entries,
  onOpen,
}: {
  entries: readonly OutlineEntry[]
  onOpen(entry: OutlineEntry): void
}) {
  return (
    <Menu.Root>
      <Menu.Trigger
        render={
          <Button small variant="quiet" className="ml-auto">
            <ListTree size={13} aria-hidden />
            Outline
          </Button>
        }
      />
      <Menu.Portal>
        <Menu.Positioner align="end" sideOffset={4} className="z-50">
          <Menu.Popup
            className={`${MENU_POPUP} max-h-[min(60vh,var(--available-height))] max-w-96 overflow-y-auto`}
          >
            {entries.map((entry) => (
              <Menu.Item
                key={entry.start}
                className={`${MENU_ITEM} h-7!`}
                onClick={() => onOpen(entry)}
              >
                <span
                  className={`truncate text-xs ${entry.kind === 'heading' ? '' : 'text-ink-2'}`}
                  style={{ paddingInlineStart: entry.level * 12 }}
                >
                  {entry.label}
                </span>
              </Menu.Item>
            ))}
          </Menu.Popup>
        </Menu.Positioner>
      </Menu.Portal>
    </Menu.Root>
  )
}

/** Maximum time that a jump waits until its target is rendered. */
const MAX_WAIT_MS = 3_000
/**
 * Time during which the scroll position is corrected, because text above the target changes its height while it
 * renders.
 */
const CORRECT_MS = 500
const CORRECT_EVERY_MS = 120

function useScrollTo(
  root: RefObject<HTMLDivElement | null>,
  to: (Revealed & { selector: string | null }) | null,
): void {
  useEffect(() => {
    if (to === null) return
    const began = performance.now()
    let foundAt: number | null = null
    let correctedAt = 0
    let handle = 0
    const step = (now: number) => {
      const found = root.current === null ? null : target(root.current, to)
      if (found !== null && now - correctedAt >= CORRECT_EVERY_MS) {
        foundAt ??= now
        correctedAt = now
        scrollTo(found)
      }
      const isOver = foundAt === null ? now - began > MAX_WAIT_MS : now - foundAt > CORRECT_MS
      if (!isOver) handle = requestAnimationFrame(step)
    }
    handle = requestAnimationFrame(step)
    const stop = () => cancelAnimationFrame(handle)
    // Any input of the user ends the corrections.
    const input = ['wheel', 'pointerdown', 'keydown', 'touchstart'] as const
    for (const name of input) addEventListener(name, stop, { passive: true, once: true })
    return () => {
      stop()
      for (const name of input) removeEventListener(name, stop)
    }
  }, [root, to])
}

/** Scrolls an element into view within its scroll container. scrollIntoView would also scroll the page around it. */
function scrollTo(element: HTMLElement): void {
  const scroller = scrollerOf(element)
  if (scroller === null) {
    element.scrollIntoView({ block: 'center' })
    return
  }
  const [own, around] = [element.getBoundingClientRect(), scroller.getBoundingClientRect()]
  const free = Math.max(around.height / 4, (around.height - own.height) / 2)
  scroller.scrollTop += own.top - around.top - free
}

function target(root: HTMLElement, { at, selector }: Revealed & { selector: string | null }) {
  if (selector !== null) return root.querySelector<HTMLElement>(selector)
  let best: { at: number; element: HTMLElement } | null = null
  for (const element of root.querySelectorAll<HTMLElement>(
    '[data-at], [data-start], [data-piece]',
  )) {
    const { at: heading, start, piece } = element.dataset
    const own = Number(heading ?? start ?? piece)
    // A heading may be indented by up to three spaces.
    if (own <= at + 3 && own >= (best?.at ?? 0)) best = { at: own, element }
  }
  return best?.element ?? null
}
