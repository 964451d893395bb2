'use client'

import { ChevronDown, ChevronUp, Link2, X } from 'lucide-react'
import { type ReactNode, useLayoutEffect, useRef } from 'react'
import { IconButton } from './button.tsx'
import { useCopy } from './copy-text.tsx'
import { Scroll } from './scroll.tsx'

/**
 * The details of a list row. The panel is docked next to the list; in windows narrower than 1,180 px, it covers the
 * page. The page handles J, K and Escape. The panel takes the focus, because Tab would otherwise first stop at
 * all remaining rows of the list.
 */
export function DockedPanel({
  label,
  opener,
  heading,
  noun,
  details,
  actions,
  sticky = false,
  onClose,
  onWalk,
  children,
}: {
  label: string
  /** Accessible name of the button in the list that opens the item. */
  opener: string
  heading: ReactNode
  noun: string
  details: string
  actions?: ReactNode
  /** True on a page that scrolls: the panel is then as high as the window, otherwise as high as its parent. */
  sticky?: boolean
  onClose(): void
  onWalk(by: 1 | -1): void
  children: ReactNode
}) {
  const { copied, copy } = useCopy()
  const panel = useRef<HTMLElement>(null)
  useLayoutEffect(() => {
    const opened = panel.current
    const before = document.activeElement
    opened?.focus({ preventScroll: true })
    return () => {
      const active = document.activeElement
      // The body has the focus if a focused part of the panel was removed.
      if (active !== document.body && !opened?.contains(active)) return
      const button = document.querySelector<HTMLElement>(
        `#page button[aria-label="${CSS.escape(opener)}"]`,
      )
      const target = button ?? before
      if (target instanceof HTMLElement) target.focus({ preventScroll: true })
    }
  }, [opener])
  return (
    <aside
      ref={panel}
      tabIndex={-1}
      aria-label={label}
      className={`fixed inset-0 z-40 flex flex-col bg-surface outline-none lg:w-[min(46vw,640px)] lg:shrink-0 lg:border-l ${
        sticky
          ? 'lg:sticky lg:inset-auto lg:top-12 lg:z-10 lg:h-[calc(100dvh-48px)]'
          : 'lg:static lg:z-auto'
      }`}
    >
      <header className="flex h-11 shrink-0 items-center gap-1 border-b pr-3 pl-5">
        {heading}
        <span className="ml-auto flex items-center">
          <span className="sr-only" aria-live="polite">
            {copied ? 'Link copied' : ''}
          </span>
          <IconButton
            label={copied ? 'Link copied' : `Copy link to ${noun}`}
            onClick={() => copy(location.href)}
            className={copied ? 'text-ok' : ''}
          >
            <Link2 size={15} aria-hidden />
          </IconButton>
          {actions}
          <IconButton label={`Previous ${noun} (K)`} onClick={() => onWalk(-1)}>
            <ChevronUp size={16} aria-hidden />
          </IconButton>
          <IconButton label={`Next ${noun} (J)`} onClick={() => onWalk(1)}>
            <ChevronDown size={16} aria-hidden />
          </IconButton>
          <IconButton label="Close (Esc)" onClick={onClose}>
            <X size={16} aria-hidden />
          </IconButton>
        </span>
      </header>
      {/* The position is relative, so that visually hidden texts in the panel do not make the page itself scroll. */}
      <Scroll label={details} className="relative min-h-0 flex-1 overflow-y-auto">
        {children}
      </Scroll>
    </aside>
  )
}

export function PanelPart({
  title,
  note,
  actions,
  children,
}: {
  title: string
  note?: ReactNode
  actions?: ReactNode
  children: ReactNode
}) {
  return (
    <section className="border-b px-5 py-3.5 last:border-0">
      <div className={`flex items-center gap-2 ${actions ? 'mb-2.5' : 'mb-1.5'}`}>
        <h3 className="flex items-baseline gap-2 text-xs font-medium text-ink-3">
          {title}
          {note && <span className="num font-normal">{note}</span>}
        </h3>
        {actions && <div className="-my-1 ml-auto flex items-center gap-2">{actions}</div>}
      </div>
      {children}
    </section>
  )
}
