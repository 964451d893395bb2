'use client'

import { ArrowDown, ArrowUp, Columns3, Plus, X } from 'lucide-react'
import { useState } from 'react'
import type { ExtraKeyDto } from '../../server/contract/sample-extras.ts'
import { Button, IconButton } from '../ui/button.tsx'
import { ColumnsPopover, FindColumn } from '../ui/columns-popover.tsx'
import { chosenColumns, columnChoices, EXTRA_PREFIX, type SampleColumn } from './sample-columns.tsx'
import type { ChosenColumn, SampleView } from './sample-filters.ts'

export function ColumnPicker({
  view,
  extraKeys,
  onChange,
}: {
  view: SampleView
  extraKeys: readonly ExtraKeyDto[]
  onChange(change: Partial<SampleView>): void
}) {
  const [wanted, setWanted] = useState('')
  const keys = extraKeys.map(({ key }) => key)
  const shown = chosenColumns(view, keys).filter(({ name }) => name !== 'sample')
  const px = new Map(view.columns?.map((column) => [column.name, column.px]))
  const set = (names: readonly string[]) =>
    onChange({
      columns: names.map((name): ChosenColumn => ({ name, px: px.get(name) ?? null })),
    })
  const names = shown.map(({ name }) => name)
  const rest = columnChoices(keys).filter(
    ({ name, label }) =>
      name !== 'sample' &&
      !names.includes(name) &&
      `${name} ${label}`.toLowerCase().includes(wanted.toLowerCase()),
  )
  const move = (at: number, by: 1 | -1) => {
    const next = [...names]
    const [name] = next.splice(at, 1)
    next.splice(at + by, 0, name as string)
    set(next)
  }
  return (
    <ColumnsPopover
      trigger={
        <IconButton label="Columns">
          <Columns3 size={15} aria-hidden />
        </IconButton>
      }
    >
      <ul aria-label="Shown columns" className="min-h-16 overflow-y-auto">
        {shown.map((column, at) => (
          <li key={column.name} className="flex h-7 items-center rounded-md pl-2 text-xs">
            <Name column={column} />
            <span className="ml-auto flex">
              <IconButton
                label={`Move ${column.label} up`}
                disabled={at === 0}
                onClick={() => move(at, -1)}
              >
                <ArrowUp size={13} aria-hidden />
              </IconButton>
              <IconButton
                label={`Move ${column.label} down`}
                disabled={at === shown.length - 1}
                onClick={() => move(at, 1)}
              >
                <ArrowDown size={13} aria-hidden />
              </IconButton>
              <IconButton
                label={`Hide ${column.label}`}
                onClick={() => set(names.filter((name) => name !== column.name))}
              >
                <X size={13} aria-hidden />
              </IconButton>
            </span>
          </li>
        ))}
      </ul>
      <div className="border-t px-2 py-2">
        <FindColumn value={wanted} onChange={setWanted} />
      </div>
      <ul aria-label="Other columns" className="min-h-16 overflow-y-auto">
        {rest.map((column) => (
          <li key={column.name}>
            <button
              type="button"
              aria-label={`Show ${column.label}`}
              onClick={() => set([...names, column.name])}
              className="flex h-7 w-full items-center gap-2 rounded-md px-2 text-xs hover:bg-hover"
            >
              <Plus size={13} className="shrink-0 text-ink-3" aria-hidden />
              <Name column={column} />
            </button>
          </li>
        ))}
      </ul>
      <div className="border-t px-2 pt-2 pb-1">
        <Button
          small
          variant="quiet"
          disabled={view.columns === null}
          onClick={() => onChange({ columns: null })}
        >
          Reset columns
        </Button>
      </div>
    </ColumnsPopover>
  )
}

function Name({ column }: { column: SampleColumn }) {
  return column.name.startsWith(EXTRA_PREFIX) ? (
    <span className="truncate font-mono" title={column.name}>
      {column.name}
    </span>
  ) : (
    <span className="truncate">{column.label}</span>
  )
}
