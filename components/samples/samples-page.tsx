'use client'

import { useInfiniteQuery } from '@tanstack/react-query'
import { Boxes, FilterX } from 'lucide-react'
import { useMemo, useRef } from 'react'
import type { SamplePageDto, SampleRowDto } from '../../server/wire/pages.ts'
import { pagesOptions } from '../api/pages.ts'
import { useTRPC, useTRPCClient } from '../api/trpc.ts'
import { formatCount, plural } from '../format/numbers.ts'
import { clockTime } from '../format/time.ts'
import { useKeys } from '../shell/keys.tsx'
import { PageHeader } from '../shell/page-header.tsx'
import { PageLink } from '../shell/page-link.tsx'
import { Button, buttonClass } from '../ui/button.tsx'
import { Empty } from '../ui/empty.tsx'
import { NewRows } from '../ui/new-rows.tsx'
import { QueryView } from '../ui/query-view.tsx'
import { TableSkeleton } from '../ui/skeleton.tsx'
import { useAnnounced } from '../ui/use-announced.ts'
import { useNarrow } from '../ui/use-narrow.ts'
import { useUrl } from '../url/use-url.ts'
import { chosenColumns } from './sample-columns.tsx'
import { SampleFilterBar } from './sample-filter-bar.tsx'
import { isNarrowed, NO_FILTERS, sampleListInput, sampleView } from './sample-filters.ts'
import { SamplePanel } from './sample-panel.tsx'
import { SampleTable } from './sample-table.tsx'

const idOf = (row: SampleRowDto) => row.id

/** Reading a thousand rows again three times a second helps nobody: longer lists stand still. */
const LIVE_PAGES = 3

/** Samples of all batches, narrowed by the address, and one of them beside the table. */
export function SamplesPage() {
  const trpc = useTRPC()
  const client = useTRPCClient()
  const [view, setView] = useUrl(sampleView)
  const input = sampleListInput(view)
  const loadedPages = useRef(1)
  const list = useInfiniteQuery(
    pagesOptions({
      queryKey: trpc.samples.list.infiniteQueryKey(input),
      read: (cursor, signal) => client.samples.list.query({ ...input, cursor }, { signal }),
      topics:
        loadedPages.current > LIVE_PAGES
          ? []
          : [view.batch === null ? 'samples' : `batch:${view.batch}`],
    }),
  )
  loadedPages.current = list.data?.pages.length ?? 1
  const searched = useMemo(() => sumOfSearched(list.data?.pages ?? []), [list.data])
  // What found nothing among so many is asked for again by a person, not by scrolling.
  const stopped = list.hasNextPage && (list.data?.pages.at(-1)?.items.length ?? 0) === 0
  const rows = useMemo(() => list.data?.pages.flatMap((page) => page.items), [list.data])
  const { shown, freshCount, showFresh } = useAnnounced(
    rows,
    idOf,
    JSON.stringify(input),
    list.hasNextPage,
  )
  const extraKeys = useMemo(() => keysSeen(shown), [shown])
  const narrow = useNarrow() || view.sample !== null
  const columns = useMemo(() => chosenColumns(view, extraKeys, narrow), [view, extraKeys, narrow])
  const filterBar = useRef<HTMLDivElement>(null)

  const open = (id: string | null, how: 'push' | 'replace') => setView({ sample: id }, how)
  const walk = (by: 1 | -1) => {
    const at = shown.findIndex((row) => row.id === view.sample)
    const next = at < 0 ? shown[0] : shown[at + by]
    if (next !== undefined) open(next.id, view.sample === null ? 'push' : 'replace')
    if (at + by > shown.length - 10 && list.hasNextPage && !list.isFetchingNextPage) {
      void list.fetchNextPage()
    }
  }
  useKeys([
    { key: 'j', label: 'Next sample', group: 'Samples', run: () => walk(1) },
    { key: 'k', label: 'Previous sample', group: 'Samples', run: () => walk(-1) },
    {
      key: 'Escape',
      label: 'Close the sample',
      group: 'Samples',
      run: () => open(null, 'replace'),
    },
    {
      key: 'f',
      label: 'Filter',
      group: 'Samples',
      run: () => filterBar.current?.querySelector<HTMLElement>('input, select')?.focus(),
    },
  ])

  return (
    <div className="flex h-dvh flex-col">
      <PageHeader
        title="Samples"
        {...(view.batch === null
          ? {}
          : { parent: { href: `/batches/${view.batch}`, label: view.batch } })}
        state={
          shown.length > 0 && (
            <span className="num truncate text-ink-3">
              {formatCount(shown.length)}
              {list.hasNextPage ? '+' : ''} shown
              {loadedPages.current > LIVE_PAGES && ` · as of ${clockTime(list.dataUpdatedAt)}`}
              {view.sort !== 'newest' && searched && !searched.all && (
                <> · put in order: the newest {searchedText(searched)}</>
              )}
            </span>
          )
        }
      />
      <div ref={filterBar}>
        <SampleFilterBar view={view} onChange={setView} rows={shown} extraKeys={extraKeys} />
      </div>
      <div className="flex min-h-0 flex-1">
        <div className="flex min-w-0 flex-1 flex-col">
          <NewRows count={freshCount} noun={['sample', 'samples']} onShow={showFresh} />
          <QueryView query={list} skeleton={<TableSkeleton columns={8} rows={16} />}>
            {() =>
              shown.length === 0 ? (
                <NoSamples
                  narrowed={isNarrowed(view)}
                  searched={searched && !searched.all ? searched : null}
                  searching={list.isFetchingNextPage}
                  onSearchOn={list.hasNextPage ? () => void list.fetchNextPage() : null}
                  onClear={() => setView({ ...NO_FILTERS })}
                />
              ) : (
                <SampleTable
                  rows={shown}
                  columns={columns}
                  openId={view.sample}
                  onOpen={(id) => open(id, view.sample === null ? 'push' : 'replace')}
                  hasMore={list.hasNextPage && !stopped}
                  onMore={() => {
                    if (!list.isFetchingNextPage) void list.fetchNextPage()
                  }}
                  end={
                    stopped &&
                    searched && (
                      <p className="num flex items-center justify-center gap-3 px-5 py-3 text-xs text-ink-3">
                        {searchedText(searched)} were looked at, down to {searched.oldest}
                        <Button
                          small
                          busy={list.isFetchingNextPage}
                          onClick={() => void list.fetchNextPage()}
                        >
                          Search on
                        </Button>
                      </p>
                    )
                  }
                />
              )
            }
          </QueryView>
        </div>
        {view.sample !== null && (
          <SamplePanel
            key={view.sample}
            id={view.sample}
            onOpen={(id) => open(id, 'replace')}
            onClose={() => open(null, 'replace')}
            onWalk={walk}
            nextId={shown[shown.findIndex((row) => row.id === view.sample) + 1]?.id ?? null}
          />
        )}
      </div>
    </div>
  )
}

/** The reward extra info keys of the rows, in the order in which they were first seen. */
function keysSeen(rows: readonly SampleRowDto[]): string[] {
  const keys = new Set<string>()
  for (const row of rows) {
    for (const key of Object.keys(row.rewardExtraInfo)) {
      keys.add(key)
      // A reward function that invents keys must not fill the menu; the address takes any key.
      if (keys.size >= 60) return [...keys]
    }
  }
  return [...keys]
}

type Searched = SamplePageDto['searched']

/** What was looked at for all pages; in an order of keys every page looks at the same. */
function sumOfSearched(pages: readonly SamplePageDto[]): Searched | null {
  const last = pages.at(-1)?.searched
  if (last === undefined) return null
  const sorted = pages.length > 1 && pages[0]?.searched.oldest === last.oldest
  if (sorted) return last
  return {
    ...last,
    batches: pages.reduce((sum, page) => sum + page.searched.batches, 0),
    samples: pages.reduce((sum, page) => sum + page.searched.samples, 0),
  }
}

function searchedText({ samples, batches }: Searched): string {
  return `${plural(samples, 'sample')} of ${plural(batches, 'batch', 'batches')}`
}

function NoSamples({
  narrowed,
  searched,
  searching,
  onSearchOn,
  onClear,
}: {
  narrowed: boolean
  /** Null: all were looked at. */
  searched: Searched | null
  searching: boolean
  onSearchOn: (() => void) | null
  onClear(): void
}) {
  if (narrowed && searched !== null) {
    return (
      <Empty
        icon={FilterX}
        title="None among the newest that may fit"
        actions={
          <>
            {onSearchOn && (
              <Button variant="primary" busy={searching} onClick={onSearchOn}>
                Search on
              </Button>
            )}
            <Button onClick={onClear}>Clear the filters</Button>
          </>
        }
      >
        {searchedText(searched)} were looked at, down to {searched.oldest}. A run, a step or a batch
        narrows it to what you mean.
      </Empty>
    )
  }
  return narrowed ? (
    <Empty
      icon={FilterX}
      title="No sample fits these filters"
      actions={<Button onClick={onClear}>Clear the filters</Button>}
    >
      A score range leaves out samples that have no score: failed ones and those still to be scored.
    </Empty>
  ) : (
    <Empty
      icon={Boxes}
      title="No sample yet"
      actions={
        <PageLink href="/" className={buttonClass('primary')}>
          Submit a first batch
        </PageLink>
      }
    >
      Each rollout of a batch is a sample: its texts, its score, and every attempt to get it.
    </Empty>
  )
}
