'use client'

import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { Check, Download, FilterX, Link2, SlidersHorizontal, X } from 'lucide-react'
import { type ReactNode, useState } from 'react'
import type { SampleRowDto } from '../../server/contract/pages.ts'
import type { ExtraKeyDto } from '../../server/contract/sample-extras.ts'
import {
  type ExtraFilter,
  extraText,
  type SampleFilter,
} from '../../server/contract/sample-filter.ts'
import { SAMPLE_FAILURE_REASONS } from '../../server/contract/sample-reason.ts'
import { useTRPC } from '../api/trpc.ts'
import { SIGNAL_FILTER_LABEL } from '../batches/group-signal-text.ts'
import { Button, IconButton } from '../ui/button.tsx'
import { useCopy } from '../ui/copy-text.tsx'
import { Select } from '../ui/select.tsx'
import { SAMPLE_LOOK } from '../ui/status.tsx'
import { ColumnPicker } from './column-picker.tsx'
import { Choice, finiteOf, SearchField, TypedFilter, wholeOf } from './filter-fields.tsx'
import { MoreFilters } from './more-filters.tsx'
import {
  isNarrowed,
  narrowed,
  SAMPLE_SORTS,
  SAMPLE_STATUSES,
  type SampleView,
} from './sample-filters.ts'

export function SampleFilterBar({
  view,
  onChange,
  rows,
  extraKeys,
  views,
  onExport,
}: {
  view: SampleView
  onChange(change: Partial<SampleView>): void
  rows: readonly SampleRowDto[]
  extraKeys: readonly ExtraKeyDto[]
  views: ReactNode
  onExport(): void
}) {
  const trpc = useTRPC()
  const runs = useQuery(trpc.runs.list.queryOptions())
  const servers = useQuery(trpc.servers.list.queryOptions())
  const { filter } = view
  const { run, batch, step, split, rescored } = filter
  const facets = useQuery(
    trpc.samples.facets.queryOptions(
      {
        ...(run === undefined ? {} : { run }),
        ...(batch === undefined ? {} : { batch }),
        ...(step === undefined || filter.stepTo !== undefined ? {} : { step }),
        ...(split === undefined ? {} : { split }),
        ...(rescored === undefined ? {} : { rescored }),
      },
      { meta: { topics: ['samples'] }, placeholderData: keepPreviousData },
    ),
  ).data
  const sources = facets?.dataSources.map(({ name }) => name) ?? []
  const counts = facets && {
    source: new Map(facets.dataSources.map(({ name, samples }) => [name, samples])),
    verdict: new Map(facets.verdicts.map(({ verdict, samples }) => [verdict, samples])),
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
  const narrow = (change: Partial<SampleFilter>) => onChange({ filter: narrowed(filter, change) })
  const { copied, copy } = useCopy()
  return (
    <div className="border-b px-5 py-2">
      <div className="flex flex-wrap items-center gap-2">
        {views}
        <SearchField
          label="Search texts"
          placeholder="Search prompt, response, ground truth"
          maxChars={500}
          value={filter.text ?? null}
          onCommit={(text) => narrow({ text })}
        />
        <Button
          small
          aria-expanded={unfolded}
          onClick={() => setUnfolded(!unfolded)}
          className="md:hidden"
        >
          <SlidersHorizontal size={13} aria-hidden />
          Filters
          {isNarrowed(view) && (
            <>
              <span className="size-1.5 rounded-full bg-accent" aria-hidden />
              <span className="sr-only">Filtered</span>
            </>
          )}
        </Button>
        <span className="ml-auto flex items-center gap-1">
          <div className="w-29">
            <Select
              label="Sort by"
              hideLabel
              value={view.sort}
              options={SAMPLE_SORTS}
              onChange={(sort) => onChange({ sort })}
            />
          </div>
          <ColumnPicker view={view} extraKeys={extraKeys} onChange={onChange} />
          <Button small variant="quiet" onClick={onExport}>
            <Download size={13} aria-hidden />
            <span className="max-sm:sr-only">Export</span>
          </Button>
          <Button small variant="quiet" onClick={() => copy(location.href)}>
            {copied ? (
              <Check size={13} className="text-ok" aria-hidden />
            ) : (
              <Link2 size={13} aria-hidden />
            )}
            <span className="max-sm:sr-only" aria-live="polite">
              {copied ? 'Copied' : 'Copy link'}
            </span>
          </Button>
        </span>
      </div>
      <div
        className={`${unfolded ? 'mt-2 flex' : 'hidden'} flex-wrap items-center gap-2 md:mt-2 md:flex`}
      >
        <Choice
          label="Run"
          searchable
          all="All runs"
          value={run ?? null}
          options={runs.data?.map((run) => run.name) ?? []}
          onChange={(run) => narrow({ run: run ?? undefined })}
          width="min-w-30 max-w-80"
        />
        <TypedFilter
          label="Batch"
          placeholder="Batch"
          value={batch ?? null}
          width="w-16"
          onCommit={(text) => {
            const number = text === null ? null : /^b?(\d{1,18})$/.exec(text)
            narrow({ batch: number ? `b${number[1]}` : undefined })
          }}
        />
        <TypedFilter
          label="Step"
          placeholder="Step"
          value={
            step === undefined
              ? null
              : filter.stepTo === undefined
                ? String(step)
                : `${step}-${filter.stepTo}`
          }
          width="w-16"
          onCommit={(text) => {
            const [from, to] = (text ?? '').split(/[-–]/).map((part) => wholeOf(part.trim()))
            narrow({ step: from, stepTo: from === undefined ? undefined : to })
          }}
        />
        <Choice
          label="Data source"
          searchable
          all="All sources"
          value={filter.dataSource ?? null}
          options={[...new Set([...sources, ...seen((row) => row.dataSource)])]}
          counts={counts?.source}
          onChange={(dataSource) => narrow({ dataSource: dataSource ?? undefined })}
          width="w-30"
        />
        <Choice
          label="Status"
          all="Any status"
          value={filter.status ?? null}
          options={SAMPLE_STATUSES}
          labelOf={(status) => SAMPLE_LOOK[status].text}
          counts={counts?.status}
          onChange={(status) => narrow({ status: status ?? undefined })}
          width="w-26"
        />
        <Choice
          label="Verdict"
          searchable
          all="Any verdict"
          value={filter.verdict ?? null}
          options={[
            ...new Set([
              ...(facets?.verdicts.map(({ verdict }) => verdict) ?? []),
              ...seen((row) => row.verdict),
            ]),
          ]}
          counts={counts?.verdict}
          onChange={(verdict) => narrow({ verdict: verdict ?? undefined })}
          width="w-27"
        />
        <Choice
          label="Failure reason"
          all="Any reason"
          value={filter.reason ?? null}
          options={SAMPLE_FAILURE_REASONS}
          counts={counts?.reason}
          onChange={(reason) => narrow({ reason: reason ?? undefined })}
          width="w-27"
        />
        <Choice
          label="Server"
          searchable
          all="All servers"
          value={filter.server ?? null}
          options={[
            ...new Set([
              ...(servers.data?.map((server) => server.name) ?? []),
              ...seen((row) => row.serverName),
            ]),
          ]}
          onChange={(server) => narrow({ server: server ?? undefined })}
          width="w-27"
        />
        <span className="flex items-center gap-1 text-xs text-ink-3">
          <TypedFilter
            label="Score from"
            placeholder="Score ≥"
            value={filter.scoreMin === undefined ? null : String(filter.scoreMin)}
            width="w-16"
            numeric="decimal"
            onCommit={(text) => narrow({ scoreMin: finiteOf(text) })}
          />
          –
          <TypedFilter
            label="Score to"
            placeholder="≤"
            value={filter.scoreMax === undefined ? null : String(filter.scoreMax)}
            width="w-16"
            numeric="decimal"
            onCommit={(text) => narrow({ scoreMax: finiteOf(text) })}
          />
        </span>
        <MoreFilters filter={filter} extraKeys={extraKeys} onChange={narrow} />
        {filter.uid !== undefined && (
          <Chip label="Remove group filter" onDrop={() => narrow({ uid: undefined })}>
            Group <span className="max-w-40 truncate font-mono">{filter.uid}</span>
          </Chip>
        )}
        {filter.groupSignal !== undefined && (
          <Chip
            label="Remove group signal filter"
            onDrop={() => narrow({ groupSignal: undefined })}
          >
            {SIGNAL_FILTER_LABEL[filter.groupSignal]} groups
          </Chip>
        )}
        {filter.failedToolCall !== undefined && (
          <Chip
            label="Remove tool call filter"
            onDrop={() => narrow({ failedToolCall: undefined })}
          >
            {filter.failedToolCall ? 'Failed tool calls' : 'No failed tool call'}
          </Chip>
        )}
        {(filter.extra ?? []).map((extra) => (
          <Chip
            key={extraText(extra)}
            label={`Remove filter ${extraWords(extra)}`}
            onDrop={() => narrow({ extra: filter.extra?.filter((each) => each !== extra) })}
          >
            <span className="max-w-52 truncate font-mono">{extraWords(extra)}</span>
          </Chip>
        ))}
        {isNarrowed(view) && (
          <IconButton label="Clear filters" onClick={() => onChange({ filter: {} })}>
            <FilterX size={14} aria-hidden />
          </IconButton>
        )}
      </div>
    </div>
  )
}

function Chip({ label, onDrop, children }: { label: string; onDrop(): void; children: ReactNode }) {
  return (
    <span className="inline-flex h-7 items-center gap-1 rounded-md border border-accent pl-2 text-xs">
      {children}
      <button
        type="button"
        aria-label={label}
        onClick={onDrop}
        className="flex size-6 items-center justify-center text-ink-3 hover:text-ink"
      >
        <X size={12} aria-hidden />
      </button>
    </span>
  )
}

function extraWords(filter: ExtraFilter): string {
  const { key } = filter
  if (filter.is === 'present') return `${key} is present`
  if (filter.is === 'number') {
    const { min, max } = filter
    if (min !== undefined && max !== undefined) return `${min} ≤ ${key} ≤ ${max}`
    if (min !== undefined) return `${key} ≥ ${min}`
    return max === undefined ? `${key} is a number` : `${key} ≤ ${max}`
  }
  return filter.is === 'boolean' ? `${key} = ${filter.value}` : `${key} = “${filter.value}”`
}
