'use client'

import { ChevronRight } from 'lucide-react'
import { type ReactNode, useId } from 'react'

/** One registry entry, expandable. */
export function RegisteredItem({
  name,
  title,
  facts,
  end,
  open,
  onToggle,
  children,
}: {
  name: string
  /** A line next to the name. */
  title?: ReactNode
  facts: ReactNode
  end?: ReactNode
  open: boolean
  onToggle(): void
  children: ReactNode
}) {
  const id = useId()
  return (
    <li className="border-t" data-entry={name}>
      <button
        type="button"
        aria-expanded={open}
        aria-controls={id}
        onClick={onToggle}
        className="grid w-full grid-cols-[14px_minmax(0,1fr)_auto] items-baseline gap-x-3 gap-y-0.5 px-5 py-2 text-left hover:bg-hover md:grid-cols-[14px_minmax(0,260px)_minmax(0,1fr)_auto]"
      >
        <ChevronRight
          size={14}
          aria-hidden
          className={`quick relative top-[3px] text-ink-3 transition-transform ${open ? 'rotate-90' : ''}`}
        />
        <span className="min-w-0">
          <span className="block truncate font-mono text-xs leading-5 font-medium">{name}</span>
          {title && <span className="block text-xs text-ink-3">{title}</span>}
        </span>
        <span className="min-w-0 text-xs leading-5 text-ink-2 max-md:order-last max-md:col-span-2 max-md:col-start-2">
          {facts}
        </span>
        <span className="num text-right text-xs leading-5 text-ink-3">{end}</span>
      </button>
      <div id={id} hidden={!open} className="pr-5 pb-4 pl-5 sm:pl-[46px]">
        {open && children}
      </div>
    </li>
  )
}

export function RegisteredList({ children }: { children: ReactNode }) {
  return <ul className="border-b">{children}</ul>
}
