'use client'

import { Search, X } from 'lucide-react'
import { useId, useState } from 'react'
import { formatCompact, readInteger, readNumber } from '../format/numbers.ts'
import { Select } from '../ui/select.tsx'

export function wholeOf(text: string | null): number | undefined {
  const n = text === null ? Number.NaN : readInteger(text)
  return n >= 0 && n < 1e10 ? n : undefined
}

export function finiteOf(text: string | null): number | undefined {
  const n = text === null ? Number.NaN : readNumber(text)
  return Number.isNaN(n) ? undefined : n
}

export function Choice<Option extends string>({
  label,
  all,
  value,
  options,
  labelOf,
  counts,
  searchable,
  onChange,
  width,
}: {
  label: string
  all: string
  value: Option | null
  options: readonly NoInfer<Option>[]
  /** By default the option itself. */
  labelOf?(option: NoInfer<Option>): string
  /** Sample counts within the selected run, step and batch, from roll-ups. */
  counts?: ReadonlyMap<string, number> | undefined
  searchable?: boolean
  onChange(value: NoInfer<Option> | null): void
  width: string
}) {
  return (
    <div className={width}>
      <Select
        label={label}
        hideLabel
        searchable={searchable === true}
        narrows={value !== null}
        value={value}
        options={[
          { value: null, label: all },
          ...options.map((value) => {
            const count = counts?.get(value)
            return {
              value,
              label: labelOf?.(value) ?? value,
              note: count === undefined ? undefined : formatCompact(count),
            }
          }),
        ]}
        onChange={onChange}
      />
    </div>
  )
}

/** The message for text that is not a number of the given type; null for valid text. */
function numberProblem(
  numeric: 'integer' | 'decimal' | undefined,
  text: string | null,
): string | null {
  if (numeric === undefined || text === null) return null
  if (numeric === 'integer') return wholeOf(text) === undefined ? 'Enter a whole number.' : null
  return finiteOf(text) === undefined ? 'Enter a number.' : null
}

/**
 * A text filter, applied on Enter and on blur rather than on every key. Invalid text stays in the field, with a message
 * beside it.
 */
export function TypedFilter({
  label,
  placeholder,
  value,
  width,
  numeric,
  problemOf,
  onCommit,
}: {
  label: string
  placeholder: string
  value: string | null
  width: string
  numeric?: 'integer' | 'decimal'
  /** Returns the message for invalid text, or null for valid text. Invalid text is not committed. */
  problemOf?(text: string | null): string | null
  onCommit(text: string | null): void
}) {
  const id = useId()
  const [draft, setDraft] = useState<string | null>(null)
  const [problem, setProblem] = useState<string | null>(null)
  // Escape discards the draft, and with it the message.
  const shownProblem = draft === null ? null : problem
  const commit = () => {
    if (draft === null) return
    const text = draft.trim() === '' ? null : draft.trim()
    const found = problemOf?.(text) ?? numberProblem(numeric, text)
    setProblem(found)
    if (found !== null) return
    onCommit(text)
    setDraft(null)
  }
  return (
    <>
      <input
        aria-label={label}
        placeholder={placeholder}
        inputMode={numeric ? 'decimal' : 'text'}
        autoComplete="off"
        spellCheck={false}
        value={draft ?? value ?? ''}
        aria-invalid={shownProblem !== null || undefined}
        aria-describedby={shownProblem === null ? undefined : `${id}-problem`}
        onChange={(event) => {
          setDraft(event.target.value)
          setProblem(null)
        }}
        onBlur={commit}
        onKeyDown={(event) => {
          if (event.key === 'Enter') commit()
          if (event.key === 'Escape') {
            setDraft(null)
            event.currentTarget.blur()
          }
        }}
        className={`num h-7 rounded-md border bg-surface px-2 text-xs placeholder:text-ink-3 aria-invalid:border-bad ${width} ${value === null ? 'border-line-strong' : 'border-accent font-medium'}`}
      />
      {shownProblem !== null && (
        <span id={`${id}-problem`} role="alert" className="text-xs text-bad">
          {shownProblem}
        </span>
      )}
    </>
  )
}

export function SearchField({
  label,
  placeholder,
  maxChars,
  value,
  onCommit,
}: {
  label: string
  placeholder: string
  maxChars: number
  value: string | null
  onCommit(text: string | undefined): void
}) {
  const [draft, setDraft] = useState<string | null>(null)
  const commit = (text: string | null) => {
    if (text === null) return
    // Leading and trailing spaces are significant.
    onCommit(text.trim() === '' ? undefined : text)
    setDraft(null)
  }
  return (
    <span className="relative min-w-48 flex-1 md:max-w-md">
      <Search
        size={13}
        aria-hidden
        className="pointer-events-none absolute top-1/2 left-2 -translate-y-1/2 text-ink-3"
      />
      <input
        aria-label={label}
        placeholder={placeholder}
        type="text"
        autoComplete="off"
        spellCheck={false}
        maxLength={maxChars}
        value={draft ?? value ?? ''}
        onChange={(event) => setDraft(event.target.value)}
        onBlur={() => commit(draft)}
        onKeyDown={(event) => {
          if (event.key === 'Enter') commit(draft ?? value)
          if (event.key === 'Escape') {
            setDraft(null)
            event.currentTarget.blur()
          }
        }}
        className={`h-7 w-full rounded-md border bg-surface pr-7 pl-7 text-xs text-ellipsis placeholder:text-ink-3 ${value === null ? 'border-line-strong' : 'border-accent font-medium'}`}
      />
      {value !== null && (
        <button
          type="button"
          aria-label="Clear search"
          onClick={() => {
            setDraft(null)
            onCommit(undefined)
          }}
          className="absolute top-0.5 right-0.5 flex size-6 items-center justify-center text-ink-3 hover:text-ink"
        >
          <X size={12} aria-hidden />
        </button>
      )}
    </span>
  )
}
