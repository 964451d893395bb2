'use client'

import { useInfiniteQuery, useQuery } from '@tanstack/react-query'
import { FilterX, Layers } from 'lucide-react'
import { useMemo, useRef } from 'react'
import type { BatchProgressDto } from '../../server/contract/pages.ts'
import { pagesOptions } from '../api/pages.ts'
import { useTRPC, useTRPCClient } from '../api/trpc.ts'
import { formatCount, formatRate } from '../format/numbers.ts'
import { useKeys } from '../shell/keys.tsx'
import { PageHeader } from '../shell/page-header.tsx'
import { PageLink } from '../shell/page-link.tsx'
import { Ago } from '../ui/ago.tsx'
import { Button, buttonClass } from '../ui/button.tsx'
import { ColumnHeads } from '../ui/column-heads.tsx'
import { Empty } from '../ui/empty.tsx'
import { Segmented } from '../ui/field.tsx'
import { NewRows } from '../ui/new-rows.tsx'
import { QueryView } from '../ui/query-view.tsx'
import { Scroll } from '../ui/scroll.tsx'
import { Select } from '../ui/select.tsx'
import { TableSkeleton } from '../ui/skeleton.tsx'
import { BATCH_LOOK, BatchStatusView } from '../ui/status.tsx'
import { useAnnounced } from '../ui/use-announced.ts'
import { useUrl } from '../url/use-url.ts'
import {
  BatchLink,
  BatchProgress,
  BatchTime,
  FailedCount,
  isActive,
  KindMarks,
  MeanStd,
  RunName,
} from './batch-cells.tsx'
import {
  BATCH_STATUSES,
  type BatchFilters,
  batchFilters,
  batchListInput,
  NO_FILTERS,
} from './batch-filters.ts'

const idOf = (batch: BatchProgressDto) => batch.batchId

export function BatchesPage() {
  const trpc = useTRPC()
  const client = useTRPCClient()
  const [filters, setFilters] = useUrl(batchFilters)
  const input = batchListInput(filters)
  const list = useInfiniteQuery(
    pagesOptions({
      queryKey: trpc.batches.list.infiniteQueryKey(input),
      read: (cursor, signal) => client.batches.list.query({ ...input, cursor }, { signal }),
      topics: ['batches'],
    }),
  )
  const rows = useMemo(() => list.data?.pages.flatMap((page) => page.items), [list.data])
  const { shown, freshCount, showFresh } = useAnnounced(
    rows,
    idOf,
    JSON.stringify(input),
    list.hasNextPage,
  )
  const filtered = Object.values(filters).some((value) => value !== null)
  return (
    <>
      <PageHeader title="Batches" />
      <Filters filters={filters} onChange={setFilters} />
      <NewRows count={freshCount} noun={['batch', 'batches']} onShow={showFresh} />
      <QueryView query={list} skeleton={<TableSkeleton columns={9} rows={14} />}>
        {() =>
          shown.length === 0 ? (
            <NoBatches filtered={filtered} onClear={() => setFilters(NO_FILTERS)} />
          ) : (
            <>
              <BatchTable batches={shown} />
              <div className="flex h-14 items-center justify-center text-xs text-ink-3">
                {list.hasNextPage ? (
                  <Button
                    small
                    busy={list.isFetchingNextPage}
                    onClick={() => void list.fetchNextPage()}
                  >
                    {list.isFetchingNextPage ? 'Loading…' : 'Load older batches'}
                  </Button>
                ) : (
                  <span className="num">All {formatCount(shown.length)} loaded</span>
                )}
              </div>
            </>
          )
        }
      </QueryView>
    </>
  )
}

function Filters({
  filters,
  onChange,
}: {
  filters: BatchFilters
  onChange(change: Partial<BatchFilters>): void
}) {
  const trpc = useTRPC()
  const runs = useQuery(trpc.runs.list.queryOptions(undefined, { meta: { topics: ['batches'] } }))
  const first = useRef<HTMLDivElement>(null)
  useKeys([
    {
      key: 'f',
      label: 'Filter',
      group: 'This page',
      run: () => first.current?.querySelector<HTMLElement>('[role=combobox]')?.focus(),
    },
  ])
  return (
    <div ref={first} className="flex flex-wrap items-center gap-2 border-b px-5 py-2">
      <div className="w-52">
        <Select
          label="Run"
          hideLabel
          searchable
          value={filters.run}
          options={[
            { value: null, label: 'All runs' },
            ...(runs.data ?? []).map(({ name }) => name),
          ]}
          onChange={(run) => onChange({ run })}
        />
      </div>
      <div className="w-32">
        <Select
          label="Status"
          hideLabel
          value={filters.status}
          options={[
            { value: null, label: 'Any status' },
            ...BATCH_STATUSES.map((value) => ({
              ...{ value, label: value === 'active' ? 'Active' : BATCH_LOOK[value].text },
            })),
          ]}
          onChange={(status) => onChange({ status })}
        />
      </div>
      <Segmented
        label="Kind"
        value={filters.kind ?? 'all'}
        options={[
          { value: 'all', label: 'All' },
          { value: 'train', label: 'Training' },
          { value: 'val', label: 'Validation' },
          { value: 'rescored', label: 'Rescored' },
        ]}
        onChange={(kind) => onChange({ kind: kind === 'all' ? null : kind })}
      />
      {(filters.run || filters.status || filters.kind) && (
        <Button small variant="quiet" onClick={() => onChange(NO_FILTERS)}>
          Clear filters
        </Button>
      )}
    </div>
  )
}

function BatchTable({ batches }: { batches: readonly BatchProgressDto[] }) {
  const anyActive = batches.some(isActive)
  return (
    <Scroll label="Batches">
      <table className="grid-table">
        <ColumnHeads
          columns={[
            'Batch',
            'Run',
            { end: 'Step' },
            'Status',
            { end: 'Mean ± std' },
            { end: 'Failed' },
            { end: 'Samples' },
            { end: 'Groups completed' },
            'Reward',
            ...(anyActive ? [{ end: 'Samples/s' }] : []),
            { end: 'Time' },
            { end: 'Submitted' },
          ]}
        />
        <tbody>
          {batches.map((batch) => (
            <tr key={batch.batchId} data-batch={batch.batchId}>
              <td>
                <BatchLink batchId={batch.batchId} />
              </td>
              <td className="name">
                <span className="flex items-center gap-x-2 max-sm:flex-wrap">
                  <RunName run={batch.run} />
                  <KindMarks of={batch} />
                </span>
              </td>
              <td className="num end">{formatCount(batch.step)}</td>
              <td>
                {/* An ended batch has no progress bar, because a full bar would only repeat the status. */}
                {batch.status === 'running' ? (
                  <BatchProgress batch={batch} />
                ) : (
                  <BatchStatusView status={batch.status} />
                )}
              </td>
              <td className="end">
                <MeanStd mean={batch.mean} std={batch.std} />
              </td>
              <td className="end">
                <FailedCount
                  failed={batch.failed}
                  href={`/samples?batch=${batch.batchId}&status=failed`}
                />
              </td>
              <td className="num end">{formatCount(batch.samples)}</td>
              <td className="num end">
                {formatCount(batch.groupsCompleted)}
                <span className="unit">/{formatCount(batch.groups)}</span>
              </td>
              <td className="max-w-32 truncate text-ink-2" title={batch.rewardName}>
                {batch.rewardName}
              </td>
              {anyActive && (
                <td className="num end">
                  {isActive(batch) ? (
                    formatRate(batch.samplesPerSecond)
                  ) : (
                    <span className="text-ink-3">–</span>
                  )}
                </td>
              )}
              <td className="end">
                <BatchTime batch={batch} />
              </td>
              <td className="end text-ink-2">
                <Ago at={batch.submittedAt} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </Scroll>
  )
}

function NoBatches({ filtered, onClear }: { filtered: boolean; onClear(): void }) {
  return filtered ? (
    <Empty
      icon={FilterX}
      title="No matching batches"
      actions={<Button onClick={onClear}>Clear filters</Button>}
    >
      New batches that match appear here automatically.
    </Empty>
  ) : (
    <Empty
      icon={Layers}
      title="No batches yet"
      actions={
        <PageLink href="/" className={buttonClass('primary')}>
          Submit your first batch
        </PageLink>
      }
    >
      A batch is the rollouts of one step. A trainer submits it with{' '}
      <code className="font-mono text-xs">batches.submit</code>. The overview has an example to
      copy.
    </Empty>
  )
}
