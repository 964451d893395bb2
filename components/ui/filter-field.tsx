'use client'

import { Search } from 'lucide-react'
import { useEffect, useRef, useState } from 'react'
import { formatCount } from '../format/numbers.ts'
import { useKeys } from '../shell/keys.tsx'

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
  // Typed text applies immediately and is written to the URL shortly after. A typed value that comes back from the URL
  // is ignored, because the field may already contain newer text. Other values come from a navigation and apply.
  const [typed, setTyped] = useState(value)
  const echoes = useRef<string[]>([])
  useEffect(() => {
    const at = echoes.current.indexOf(value)
    if (at < 0) setTyped(value)
    echoes.current.splice(0, at < 0 ? echoes.current.length : at + 1)
  }, [value])
  const type = (next: string) => {
    setTyped(next)
    if (next !== value) echoes.current.push(next)
    onChange(next)
  }
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
        value={typed}
        placeholder={label}
        autoComplete="off"
        spellCheck={false}
        onChange={(event) => type(event.target.value)}
        onKeyDown={(event) => {
          if (event.key !== 'Escape') return
          type('')
          field.current?.blur()
        }}
        className="h-7 w-full rounded-md border border-line-strong bg-surface pr-2 pl-7 text-xs placeholder:text-ink-3 hover:border-ink-3"
      />
    </label>
  )
}

const LIST_WITH_FILTER = 6

export function needsFilter(rows: number, filter: string): boolean {
  return rows >= LIST_WITH_FILTER || filter !== ''
}

export function fitsFilter(filter: string, ...texts: readonly string[]): boolean {
  const wanted = filter.trim().toLowerCase()
  return texts.some((text) => text.toLowerCase().includes(wanted))
}

export function FilterLine({
  label,
  value,
  shown,
  total,
  onChange,
}: {
  label: string
  value: string
  shown: number
  total: number
  onChange(value: string): void
}) {
  return (
    <div className="flex items-center gap-3 border-b px-5 py-2">
      <FilterField label={label} value={value} onChange={onChange} />
      <FilterCount value={value} shown={shown} total={total} />
    </div>
  )
}

function FilterCount({ value, shown, total }: { value: string; shown: number; total: number }) {
  return (
    <span className="num text-xs text-ink-3" role="status">
      {value !== '' && `${formatCount(shown)} of ${formatCount(total)}`}
    </span>
  )
}
