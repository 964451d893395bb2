'use client'

import { Search } from 'lucide-react'
import { useRef } from 'react'
import { useKeys } from '../shell/keys.tsx'

/** Narrows a list that is on the page in whole; `f` leads to it, Esc empties it. */
export function FilterField({
  label,
  value,
  onChange,
}: {
  label: string
  value: string
  onChange(value: string): void
}) {
  const field = useRef<HTMLInputElement>(null)
  useKeys([{ key: 'f', label: 'Filter', group: 'This page', run: () => field.current?.focus() }])
  return (
    <label className="relative block w-64 max-w-full">
      <Search
        size={13}
        className="pointer-events-none absolute top-[7.5px] left-2.5 text-ink-3"
        aria-hidden
      />
      <span className="sr-only">{label}</span>
      <input
        ref={field}
        type="text"
        value={value}
        placeholder={label}
        autoComplete="off"
        spellCheck={false}
        onChange={(event) => onChange(event.target.value)}
        onKeyDown={(event) => {
          if (event.key !== 'Escape') return
          onChange('')
          field.current?.blur()
        }}
        className="h-7 w-full rounded-md border border-line-strong bg-surface pr-2 pl-7 text-xs placeholder:text-ink-3 hover:border-ink-3"
      />
    </label>
  )
}
