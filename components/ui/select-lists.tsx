'use client'

import { Combobox } from '@base-ui/react/combobox'
import { Select as Listbox } from '@base-ui/react/select'
import { Check, Search } from 'lucide-react'
import type { ReactNode } from 'react'
import { formatCount } from '../format/numbers.ts'
import { MENU_POPUP } from './action-menu.tsx'
import { FIELD_BOX } from './field.tsx'
import type { Primitive, SelectOption } from './select.tsx'

/** Maximum number of listed options, because more would render slowly. The search finds the others. */
const MAX_LISTED = 200

const POPUP = `${MENU_POPUP} flex max-h-[min(380px,var(--available-height))] min-w-(--anchor-width) max-w-[min(440px,var(--available-width))] flex-col`
const LIST = 'min-h-0 scroll-py-1 overflow-y-auto overscroll-contain outline-none'
const ITEM =
  'flex min-h-8 cursor-default items-center gap-2 rounded-md px-2 py-1.5 text-sm leading-5 outline-none data-highlighted:bg-hover max-sm:min-h-10'
const GROUP_LABEL = 'px-2 pt-2 pb-1 text-2xs text-ink-3'
const POSITION = {
  align: 'start',
  sideOffset: 4,
  collisionPadding: 8,
  className: 'z-50 outline-none',
} as const

export type LabeledOption<T extends Primitive> = SelectOption<T> & { label: string }

export interface ListProps<T extends Primitive> {
  groups: readonly { name: string | undefined; items: LabeledOption<T>[] }[]
  value: T
  trigger: { id: string; children: ReactNode }
  isOpen: boolean
  label: string
  disabled: boolean
  onChange(option: LabeledOption<T> | null): void
}

export function PlainList<T extends Primitive>({
  groups,
  value,
  trigger,
  isOpen,
  disabled,
  onChange,
}: ListProps<T>) {
  const items = groups.flatMap((group) => group.items)
  return (
    <Listbox.Root
      modal={false}
      defaultOpen={isOpen}
      value={items.find((item) => item.value === value) ?? null}
      isItemEqualToValue={(a: LabeledOption<T>, b: LabeledOption<T>) => a.value === b.value}
      onValueChange={onChange}
      disabled={disabled}
    >
      <Listbox.Trigger {...trigger} />
      <Listbox.Portal>
        <Listbox.Positioner {...POSITION} alignItemWithTrigger={false}>
          <Listbox.Popup className={POPUP}>
            <Listbox.List className={LIST}>
              {groups.map(({ name, items }) => (
                <Listbox.Group
                  key={name ?? ''}
                  role={name === undefined ? 'presentation' : 'group'}
                >
                  {name && <Listbox.GroupLabel className={GROUP_LABEL}>{name}</Listbox.GroupLabel>}
                  {items.map((item) => (
                    <Listbox.Item
                      key={String(item.value)}
                      value={item}
                      label={item.label}
                      className={ITEM}
                    >
                      <Listbox.ItemText className="min-w-0 break-words">
                        {item.label}
                      </Listbox.ItemText>
                      <Note item={item} isChosen={item.value === value} />
                    </Listbox.Item>
                  ))}
                </Listbox.Group>
              ))}
            </Listbox.List>
          </Listbox.Popup>
        </Listbox.Positioner>
      </Listbox.Portal>
    </Listbox.Root>
  )
}

export function SearchableList<T extends Primitive>(props: ListProps<T>) {
  const { groups, value, trigger, isOpen, label, disabled, onChange } = props
  const items = groups.flatMap((group) => group.items)
  return (
    <Combobox.Root
      items={groups}
      defaultOpen={isOpen}
      value={items.find((item) => item.value === value) ?? null}
      isItemEqualToValue={(a: LabeledOption<T>, b: LabeledOption<T>) => a.value === b.value}
      onValueChange={onChange}
      filter={hasAllWords}
      limit={MAX_LISTED}
      autoHighlight
      disabled={disabled}
    >
      <Combobox.Trigger {...trigger} />
      <Combobox.Portal>
        <Combobox.Positioner {...POSITION}>
          <Combobox.Popup
            aria-label={label}
            className={POPUP}
            // The list is as wide as the longest option, so that its width stays the same while the user types.
            style={{
              width: `max(240px, ${Math.max(...items.map((item) => item.label.length)) + 9}ch)`,
            }}
          >
            <span className="relative m-1 mb-1.5 block">
              <Search
                size={13}
                aria-hidden
                className="pointer-events-none absolute top-1/2 left-2 -translate-y-1/2 text-ink-3"
              />
              <Combobox.Input
                aria-label={`Search ${label.toLowerCase()}`}
                placeholder="Search"
                className={`${FIELD_BOX} h-8 pr-2 pl-7 text-sm`}
              />
            </span>
            <Combobox.Empty>
              <p className="px-2 py-3 text-xs text-ink-3">No matches</p>
            </Combobox.Empty>
            <Combobox.List className={LIST}>
              {(group: (typeof groups)[number]) => (
                <Combobox.Group
                  key={group.name ?? ''}
                  items={group.items}
                  role={group.name === undefined ? 'presentation' : 'group'}
                >
                  {group.name && (
                    <Combobox.GroupLabel className={GROUP_LABEL}>{group.name}</Combobox.GroupLabel>
                  )}
                  <Combobox.Collection>
                    {(item: LabeledOption<T>) => (
                      <Combobox.Item key={String(item.value)} value={item} className={ITEM}>
                        <span className="min-w-0 break-words">{item.label}</span>
                        <Note item={item} isChosen={item.value === value} />
                      </Combobox.Item>
                    )}
                  </Combobox.Collection>
                </Combobox.Group>
              )}
            </Combobox.List>
            {items.length > MAX_LISTED && (
              <p className="num border-t px-2 pt-2 pb-1 text-xs text-ink-3">
                {MAX_LISTED} of {formatCount(items.length)} shown. Search to find the others.
              </p>
            )}
          </Combobox.Popup>
        </Combobox.Positioner>
      </Combobox.Portal>
    </Combobox.Root>
  )
}

function Note({ item, isChosen }: { item: SelectOption<Primitive>; isChosen: boolean }) {
  return (
    <span className="num ml-auto flex shrink-0 items-center gap-2 pl-2 text-xs text-ink-3">
      {item.note}
      <Check size={14} aria-hidden className={isChosen ? 'text-accent' : 'invisible'} />
    </span>
  )
}

function hasAllWords({ label }: { label: string }, search: string): boolean {
  const text = label.toLowerCase()
  return search
    .toLowerCase()
    .split(/\s+/)
    .every((word) => text.includes(word))
}
