'use client'

import { ChevronDown } from 'lucide-react'
import { useId, useLayoutEffect, useRef, useState } from 'react'
import { FIELD_BOX, FieldAbout, FieldLabel } from './field.tsx'
import { MiddleText } from './middle-text.tsx'
import type { LabeledOption } from './select-lists.tsx'

export type Primitive = string | number | boolean | null

export interface SelectOption<T extends Primitive> {
  value: T
  /** The displayed text. By default the value itself. */
  label?: string
  note?: string | undefined
  group?: string
}

interface SelectProps<T extends Primitive> {
  label: string
  hideLabel?: boolean
  value: T
  options: readonly (SelectOption<T> | T)[]
  onChange(value: NoInfer<T>): void
  /** Shown while no option has the value. By default the value itself, such as a run that is no longer listed. */
  placeholder?: string
  searchable?: boolean
  narrows?: boolean
  disabled?: boolean
  title?: string | undefined
  error?: string | undefined
}

type Lists = typeof import('./select-lists.tsx')

let loaded: Lists | null = null

/**
 * The lists are loaded when the pointer or the focus first reaches a select, because their scripts take 24 kB
 * compressed, and 74 kB with the scripts that position a popup.
 */
async function loadLists(): Promise<Lists> {
  loaded = await import('./select-lists.tsx')
  return loaded
}

/** A select field with the keyboard behavior of a native select. */
export function Select<T extends Primitive>(props: SelectProps<T>) {
  const { label, hideLabel, value, placeholder, searchable, narrows, disabled, title, error } =
    props
  const id = useId()
  const [lists, setLists] = useState(loaded)
  const [isOpen, setOpen] = useState(false)
  const place = useRef<HTMLDivElement>(null)
  const hadFocus = useRef(false)
  const load = () => {
    // If loading fails, the list closes, and the next attempt to open it loads the scripts again.
    void loadLists().then(
      (lists) => {
        hadFocus.current = place.current?.contains(document.activeElement) ?? false
        setLists(lists)
      },
      () => setOpen(false),
    )
  }
  const open = () => {
    setOpen(true)
    load()
  }
  // The button of the loaded list replaces the initial button, so it must take over the focus.
  useLayoutEffect(() => {
    if (lists === null || !hadFocus.current) return
    hadFocus.current = false
    place.current?.querySelector<HTMLElement>('[role="combobox"]')?.focus()
  }, [lists])
  const options = props.options.map((option) =>
    typeof option === 'object' && option !== null ? option : { value: option },
  )
  const chosen = options.find((option) => option.value === value)
  const text = chosen === undefined ? (placeholder ?? String(value ?? '')) : labelOf(chosen)
  const onChange = (option: LabeledOption<T> | null) =>
    option !== null && props.onChange(option.value)
  const groups = [
    ...Map.groupBy(
      options.map((option) => ({ ...option, label: labelOf(option) })),
      ({ group }) => group,
    ),
  ].map(([name, items]) => ({ name, items }))
  const trigger = {
    id,
    title: title ?? text,
    'aria-label': hideLabel ? label : undefined,
    'aria-invalid': error ? true : undefined,
    'aria-describedby': error ? `${id}-about` : undefined,
    className: `${FIELD_BOX} flex cursor-pointer items-center gap-1.5 pr-2 pl-2.5 text-left disabled:cursor-default disabled:opacity-50 ${hideLabel ? 'h-7 text-xs' : 'h-8'} ${narrows === undefined ? '' : narrows ? 'border-accent! font-medium' : 'text-ink-2!'}`,
    children: (
      <>
        {searchable ? (
          <MiddleText text={text} className="grow" />
        ) : (
          <span className="min-w-0 grow truncate">{text}</span>
        )}
        <ChevronDown size={14} aria-hidden className="ml-auto shrink-0 text-ink-3" />
      </>
    ),
  }
  const List = searchable ? lists?.SearchableList : lists?.PlainList
  return (
    <div ref={place} className="min-w-0">
      {!hideLabel && <FieldLabel htmlFor={id}>{label}</FieldLabel>}
      {List === undefined ? (
        <button
          {...trigger}
          type="button"
          role="combobox"
          aria-expanded={false}
          aria-haspopup={searchable ? 'dialog' : 'listbox'}
          aria-busy={isOpen || undefined}
          disabled={disabled}
          onPointerEnter={load}
          onFocus={load}
          onMouseDown={open}
          onClick={open}
          onKeyDown={(event) => /^Arrow(Up|Down)$/.test(event.key) && open()}
        />
      ) : (
        <List
          {...{ groups, value, trigger, isOpen, label, onChange }}
          disabled={disabled ?? false}
        />
      )}
      <FieldAbout id={`${id}-about`} error={error} />
    </div>
  )
}

function labelOf({ label, value }: SelectOption<Primitive>): string {
  return label ?? String(value)
}
