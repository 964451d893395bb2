'use client'

import { Menu } from '@base-ui/react/menu'
import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { Check, Columns3, FilterX, Link2, SlidersHorizontal, X } from 'lucide-react'
import { useState } from 'react'
import type { SampleRowDto } from '../../server/wire/pages.ts'
import {
  SAMPLE_FAILURE_REASONS,
  type SampleFailureReason,
} from '../../server/wire/sample-reason.ts'
import type { SampleStatus } from '../../server/wire/trainer.ts'
import { useTRPC } from '../api/trpc.ts'
import { formatCompact } from '../format/numbers.ts'
import { MENU_POPUP } from '../ui/action-menu.tsx'
import { Button, IconButton } from '../ui/button.tsx'
import { useCopy } from '../ui/copy-text.tsx'
import { Select } from '../ui/field.tsx'
import { chosenColumns, columnChoices } from './sample-columns.tsx'
import {
  isNarrowed,
  NO_FILTERS,
  SAMPLE_SORTS,
  SAMPLE_STATUSES,
  type SampleView,
} from './sample-filters.ts'

/** Narrows the samples; everything chosen here is in the address. */
export function SampleFilterBar({
  view,
  onChange,
  rows,
  extraKeys,
}: {
  view: SampleView
  onChange(change: Partial<SampleView>): void
  rows: readonly SampleRowDto[]
  extraKeys: readonly string[]
}) {
  const trpc = useTRPC()
  const runs = useQuery(trpc.runs.list.queryOptions())
  const servers = useQuery(trpc.servers.list.queryOptions())
  const { run, batch, step } = view
  const facets = useQuery(
    trpc.samples.facets.queryOptions(
      {
        ...(run === null ? {} : { run }),
        ...(batch === null ? {} : { batch }),
        ...(step === null ? {} : { step }),
      },
      { meta: { topics: ['samples'] }, placeholderData: keepPreviousData },
    ),
  ).data
  const sources = facets?.dataSources.map(({ name }) => name) ?? []
  const counts = facets && {
    source: new Map(facets.dataSources.map(({ name, samples }) => [name, samples])),
    reason: new Map<string, number>(facets.reasons.map(({ reason, samples }) => [reason, samples])),
    status: new Map<string, number>([
      ['scored', facets.statuses.scored],
      ['failed', facets.statuses.failed],
    ]),
  }
  const [unfolded, setUnfolded] = useState(false)
  const seen = (pick: (row: SampleRowDto) => string | null) => [
    ...new Set(rows.map(pick).filter((value) => value !== null)),
  ]
  const { copied, copy } = useCopy()
  return (
    <div className="border-b px-5 py-2">
      <div className="flex items-center gap-2 md:hidden">
        <Button small aria-expanded={unfolded} onClick={() => setUnfolded(!unfolded)}>
          <SlidersHorizontal size={13} aria-hidden />
          Filters
        </Button>
        {isNarrowed(view) && <span className="text-xs text-ink-2">narrowed</span>}
      </div>
      <div
        className={`${unfolded ? 'mt-2 flex' : 'hidden'} flex-wrap items-center gap-2 md:mt-0 md:flex`}
      >
        <Choice
          label="Run"
          all="All runs"
          value={view.run}
          options={runs.data?.map((run) => run.name) ?? []}
          onChange={(run) => onChange({ run })}
          width="w-30"
        />
        <TypedFilter
          label="Batch"
          placeholder="Batch"
          value={view.batch}
          width="w-16"
          onCommit={(text) =>
            onChange({
              batch:
                text !== null && /^b?\d{1,18}$/.test(text)
                  ? text.startsWith('b')
                    ? text
                    : `b${text}`
                  : null,
            })
          }
        />
        <TypedFilter
          label="Step"
          placeholder="Step"
          value={view.step === null ? null : String(view.step)}
          width="w-14"
          numeric
          onCommit={(text) => onChange({ step: wholeOf(text) })}
        />
        <Choice
          label="Data source"
          all="All sources"
          value={view.dataSource}
          options={[...new Set([...sources, ...seen((row) => row.dataSource)])]}
          counts={counts?.source}
          onChange={(dataSource) => onChange({ dataSource })}
          width="w-30"
        />
        <Choice
          label="Status"
          all="Any status"
          value={view.status}
          options={SAMPLE_STATUSES}
          counts={counts?.status}
          onChange={(status) => onChange({ status: status as SampleStatus | null })}
          width="w-26"
        />
        <Choice
          label="Failure reason"
          all="Any reason"
          value={view.reason}
          options={SAMPLE_FAILURE_REASONS}
          counts={counts?.reason}
          onChange={(reason) => onChange({ reason: reason as SampleFailureReason | null })}
          width="w-27"
        />
        <Choice
          label="Server"
          all="All servers"
          value={view.server}
          options={[
            ...new Set([
              ...(servers.data?.map((server) => server.name) ?? []),
              ...seen((row) => row.serverName),
            ]),
          ]}
          onChange={(server) => onChange({ server })}
          width="w-27"
        />
        <span className="flex items-center gap-1 text-xs text-ink-3">
          <TypedFilter
            label="Score from"
            placeholder="Score ≥"
            value={view.scoreMin === null ? null : String(view.scoreMin)}
            width="w-16"
            numeric
            onCommit={(text) => onChange({ scoreMin: finiteOf(text) })}
          />
          –
          <TypedFilter
            label="Score to"
            placeholder="≤"
            value={view.scoreMax === null ? null : String(view.scoreMax)}
            width="w-16"
            numeric
            onCommit={(text) => onChange({ scoreMax: finiteOf(text) })}
          />
        </span>
        {view.uid !== null && (
          <span className="inline-flex h-7 items-center gap-1 rounded-md border border-line-strong pl-2 text-xs">
            group <span className="max-w-40 truncate font-mono">{view.uid}</span>
            <button
              type="button"
              aria-label="Any group"
              onClick={() => onChange({ uid: null })}
              className="flex size-6 items-center justify-center text-ink-3 hover:text-ink"
            >
              <X size={12} aria-hidden />
            </button>
          </span>
        )}
        {isNarrowed(view) && (
          <IconButton label="Clear the filters" onClick={() => onChange({ ...NO_FILTERS })}>
            <FilterX size={14} aria-hidden />
          </IconButton>
        )}
        <span className="ml-auto flex items-center gap-1">
          <div className="w-29">
            <Select
              label="Order"
              hideLabel
              value={view.sort}
              onChange={(event) => onChange({ sort: event.target.value as SampleView['sort'] })}
            >
              {SAMPLE_SORTS.map((sort) => (
                <option key={sort.value} value={sort.value}>
                  {sort.label}
                </option>
              ))}
            </Select>
          </div>
          <ColumnMenu view={view} extraKeys={extraKeys} onChange={onChange} />
          <Button small variant="quiet" onClick={() => copy(location.href)}>
            {copied ? (
              <Check size={13} className="text-ok" aria-hidden />
            ) : (
              <Link2 size={13} aria-hidden />
            )}
            <span aria-live="polite">{copied ? 'Copied' : 'Share'}</span>
          </Button>
        </span>
      </div>
    </div>
  )
}

function wholeOf(text: string | null): number | null {
  return text !== null && /^\d{1,10}$/.test(text) ? Number(text) : null
}

function finiteOf(text: string | null): number | null {
  if (text === null) return null
  const n = Number(text.replace('−', '-').replace(',', '.'))
  return Number.isFinite(n) ? n : null
}

function Choice({
  label,
  all,
  value,
  options,
  counts,
  onChange,
  width,
}: {
  label: string
  all: string
  value: string | null
  options: readonly string[]
  /** Samples of each, among those of the run, step and batch chosen; from roll-ups. */
  counts?: ReadonlyMap<string, number> | undefined
  onChange(value: string | null): void
  width: string
}) {
  const listed = value !== null && !options.includes(value) ? [value, ...options] : options
  return (
    <div className={width}>
      <Select
        label={label}
        hideLabel
        value={value ?? ''}
        onChange={(event) => onChange(event.target.value || null)}
        className={value === null ? 'text-ink-2!' : 'border-accent! font-medium'}
      >
        <option value="">{all}</option>
        {listed.map((option) => (
          <option key={option} value={option}>
            {counts?.has(option) ? `${option} · ${formatCompact(counts.get(option) ?? 0)}` : option}
          </option>
        ))}
      </Select>
    </div>
  )
}

/** A filter that is typed: taken on Enter and when the field is left, not on every key. */
function TypedFilter({
  label,
  placeholder,
  value,
  width,
  numeric,
  onCommit,
}: {
  label: string
  placeholder: string
  value: string | null
  width: string
  numeric?: boolean
  onCommit(text: string | null): void
}) {
  const [draft, setDraft] = useState<string | null>(null)
  const commit = () => {
    if (draft === null) return
    onCommit(draft.trim() === '' ? null : draft.trim())
    setDraft(null)
  }
  return (
    <input
      aria-label={label}
      placeholder={placeholder}
      inputMode={numeric ? 'decimal' : 'text'}
      autoComplete="off"
      spellCheck={false}
      value={draft ?? value ?? ''}
      onChange={(event) => setDraft(event.target.value)}
      onBlur={commit}
      onKeyDown={(event) => {
        if (event.key === 'Enter') commit()
        if (event.key === 'Escape') {
          setDraft(null)
          event.currentTarget.blur()
        }
      }}
      className={`num h-7 rounded-md border bg-surface px-2 text-xs placeholder:text-ink-3 ${width} ${value === null ? 'border-line-strong' : 'border-accent font-medium'}`}
    />
  )
}

function ColumnMenu({
  view,
  extraKeys,
  onChange,
}: {
  view: SampleView
  extraKeys: readonly string[]
  onChange(change: Partial<SampleView>): void
}) {
  const shown = chosenColumns(view, extraKeys).map((column) => column.name)
  const toggle = (name: string) => {
    const next = shown.includes(name) ? shown.filter((each) => each !== name) : [...shown, name]
    onChange({ columns: next.filter((each) => each !== 'sample') })
  }
  return (
    <Menu.Root>
      <Menu.Trigger
        render={
          <IconButton label="Columns">
            <Columns3 size={15} aria-hidden />
          </IconButton>
        }
      />
      <Menu.Portal>
        <Menu.Positioner align="end" sideOffset={4} className="z-50">
          <Menu.Popup className={`${MENU_POPUP} max-h-[60vh] overflow-y-auto`}>
            {columnChoices(extraKeys)
              .filter((column) => column.name !== 'sample')
              .map((column) => (
                <Menu.CheckboxItem
                  key={column.name}
                  checked={shown.includes(column.name)}
                  onCheckedChange={() => toggle(column.name)}
                  closeOnClick={false}
                  className="flex h-7 cursor-default items-center gap-2 rounded-md px-2 text-xs outline-none data-highlighted:bg-hover"
                >
                  <span className="flex size-4 items-center justify-center">
                    <Menu.CheckboxItemIndicator>
                      <Check size={13} aria-hidden />
                    </Menu.CheckboxItemIndicator>
                  </span>
                  {column.name.startsWith('rewardExtraInfo.') ? (
                    <span className="font-mono">{column.name}</span>
                  ) : (
                    column.label
                  )}
                </Menu.CheckboxItem>
              ))}
            <Menu.Separator className="my-1 h-px bg-line" />
            <Menu.Item
              onClick={() => onChange({ columns: null })}
              className="flex h-7 cursor-default items-center rounded-md px-2 text-xs outline-none data-highlighted:bg-hover"
            >
              The usual columns
            </Menu.Item>
          </Menu.Popup>
        </Menu.Positioner>
      </Menu.Portal>
    </Menu.Root>
  )
}
