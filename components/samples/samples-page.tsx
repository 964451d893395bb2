'use client'

import { keepPreviousData, useInfiniteQuery, useQuery } from '@tanstack/react-query'
import { Boxes, FilterX, Info, X } from 'lucide-react'
import { useEffect, useMemo, useRef, useState } from 'react'
import type { SamplePageDto, SampleRowDto } from '../../server/contract/pages.ts'
import type { ExtraKeyDto, SampleCountDto } from '../../server/contract/sample-extras.ts'
import type { SampleFilter } from '../../server/contract/sample-filter.ts'
import { describeFailure } from '../api/failure.ts'
import { pagesOptions, STALE_MS } from '../api/pages.ts'
import { useTRPC, useTRPCClient } from '../api/trpc.ts'
import { formatCount, plural } from '../format/numbers.ts'
import { clockTime } from '../format/time.ts'
import { useKeys } from '../shell/keys.tsx'
import { PageHeader } from '../shell/page-header.tsx'
import { PageLink } from '../shell/page-link.tsx'
import { Button, buttonClass, IconButton } from '../ui/button.tsx'
import { Empty } from '../ui/empty.tsx'
import { NewRows } from '../ui/new-rows.tsx'
import { rowToOpen, useLastOpen } from '../ui/open-row.ts'
import { QueryView } from '../ui/query-view.tsx'
import { TableSkeleton } from '../ui/skeleton.tsx'
import { useAnnounced } from '../ui/use-announced.ts'
import { useNarrow } from '../ui/use-narrow.ts'
import { useUrl } from '../url/use-url.ts'
import { AnnotateSheet } from './annotate-sheet.tsx'
import { BulkBar } from './bulk-bar.tsx'
import { ExportSheet } from './export-sheet.tsx'
import { RescoreSamplesSheet } from './rescore-samples-sheet.tsx'
import { chosenColumns, type SampleColumn } from './sample-columns.tsx'
import { SampleFilterBar } from './sample-filter-bar.tsx'
import {
  type ChosenColumn,
  isNarrowed,
  type SampleView,
  sampleListInput,
  sampleView,
  type UnreadParam,
} from './sample-filters.ts'
import { SamplePanel } from './sample-panel.tsx'
import { SampleTable } from './sample-table.tsx'
import { noneSelected, type Selected, type Target, toggled, toggledShown } from './selection.ts'
import { LIVE_PAGES } from './use-annotation-refresh.ts'
import { useSavedView } from './use-saved-view.ts'
import { ViewMenu } from './view-menu.tsx'

const idOf = (row: SampleRowDto) => row.id

export function SamplesPage() {
  const trpc = useTRPC()
  const client = useTRPCClient()
  const [view, setView] = useUrl(sampleView)
  const { filter } = view
  const input = sampleListInput(view)
  const listKey = JSON.stringify(input)
  const savedView = useSavedView(view, setView)
  const loadedPages = useRef(1)
  const list = useInfiniteQuery({
    ...pagesOptions({
      queryKey: trpc.samples.list.infiniteQueryKey(input),
      read: (cursor, signal) => client.samples.list.query({ ...input, cursor }, { signal }),
      // A text search is too expensive to repeat on every change.
      topics:
        loadedPages.current > LIVE_PAGES || filter.text !== undefined
          ? []
          : [filter.batch === undefined ? 'samples' : `batch:${filter.batch}`],
    }),
    staleTime: ({ state }) =>
      (state.data?.pages.length ?? 0) > LIVE_PAGES ? Number.POSITIVE_INFINITY : STALE_MS,
  })
  loadedPages.current = list.data?.pages.length ?? 1
  const { run, batch, step, stepTo, split, rescored } = filter
  const known = useQuery(
    trpc.samples.extraKeys.queryOptions(
      {
        ...(run === undefined ? {} : { run }),
        ...(batch === undefined ? {} : { batch }),
        ...(step === undefined ? {} : { step }),
        ...(stepTo === undefined ? {} : { stepTo }),
        ...(split === undefined ? {} : { split }),
        ...(rescored === undefined ? {} : { rescored }),
      },
      { placeholderData: keepPreviousData, staleTime: 30_000 },
    ),
  )
  const extraKeys = known.data?.keys ?? NO_KEYS
  const isSorted = view.sort !== 'newest'
  const searched = useMemo(
    () => sumOfSearched(list.data?.pages ?? [], isSorted),
    [list.data, isSorted],
  )
  const rows = useMemo(() => list.data?.pages.flatMap((page) => page.items), [list.data])
  // The service may stop a search before a page is full. The list then requests further pages until a full page of rows
  // has been added.
  const found = rows?.length ?? 0
  const foundBefore = found - (list.data?.pages.at(-1)?.items.length ?? 0)
  const needsMore =
    list.hasNextPage && Math.floor(found / input.limit) === Math.floor(foundBefore / input.limit)
  const [stoppedKey, setStoppedKey] = useState<string | null>(null)
  const { isFetching, fetchNextPage } = list
  const isSearching =
    needsMore && stoppedKey !== listKey && (isFetching || !list.isFetchNextPageError)
  useEffect(() => {
    if (isSearching && !isFetching) void fetchNextPage()
  }, [isSearching, isFetching, fetchNextPage])
  const moreFailure = useMoreFailure(list, listKey)
  const loadMore = () => {
    setStoppedKey(null)
    if (!list.isFetchingNextPage) void fetchNextPage()
  }
  const { text, ...otherFilters } = filter
  // Disabled for a sorted list: the list searches only the newest samples, but the count includes all samples.
  const searchable = useQuery(
    trpc.samples.count.queryOptions(otherFilters, {
      enabled: needsMore && text !== undefined && !isSorted,
      staleTime: 30_000,
    }),
  )
  const progress = searched && searchProgress(searched, searchable.data)
  const { shown, freshCount, showFresh } = useAnnounced(rows, idOf, listKey, list.hasNextPage)
  const narrow = useNarrow() || view.sample !== null
  const columns = useMemo(
    () =>
      chosenColumns(
        view,
        extraKeys.map(({ key }) => key),
        narrow,
      ),
    [view, extraKeys, narrow],
  )
  const filterBar = useRef<HTMLDivElement>(null)
  const [chosen, setChosen] = useState<Selected>(() => noneSelected(listKey))
  const selected = chosen.key === listKey ? chosen : noneSelected(listKey)
  const isSelecting = selected.all || selected.ids.size > 0
  const [sheet, setSheet] = useState<'export' | 'annotate' | 'rescore' | null>(null)
  const target: Target = selected.all ? { filter } : { ids: [...selected.ids] }

  const open = (id: string | null, how: 'push' | 'replace') => setView({ sample: id }, how)
  const lastOpen = useLastOpen(view.sample)
  const walk = (by: 1 | -1) => {
    const at = shown.findIndex((row) => row.id === lastOpen)
    const next = rowToOpen(shown, at, by, view.sample !== null)
    if (next !== undefined) open(next.id, view.sample === null ? 'push' : 'replace')
    if (at + by > shown.length - 10 && list.hasNextPage && !needsMore) loadMore()
  }
  useKeys([
    { key: 'j', label: 'Next sample', group: 'Samples', run: () => walk(1) },
    { key: 'k', label: 'Previous sample', group: 'Samples', run: () => walk(-1) },
    {
      key: 'Escape',
      label: 'Close sample',
      group: 'Samples',
      run: () => open(null, 'replace'),
    },
    {
      key: 'f',
      label: 'Filter',
      group: 'Samples',
      run: () =>
        filterBar.current?.querySelector<HTMLElement>('input[aria-label="Search texts"]')?.focus(),
    },
    {
      ...{ key: null, palette: 'page' },
      label: 'Export samples',
      group: 'Samples',
      run: () => setSheet('export'),
    },
    {
      key: 'x',
      label: 'Select open sample',
      group: 'Samples',
      run: () => {
        if (view.sample !== null) setChosen(toggled(selected, shown, view.sample, false))
      },
    },
  ])

  return (
    <div className="flex h-dvh flex-col">
      <PageHeader
        title="Samples"
        {...(batch === undefined ? {} : { parent: { href: `/batches/${batch}`, label: batch } })}
        state={
          shown.length > 0 && (
            <span className="num truncate text-ink-3">
              {formatCount(shown.length)}
              {list.hasNextPage ? '+' : ''} loaded
              {loadedPages.current > LIVE_PAGES && ` · as of ${clockTime(list.dataUpdatedAt)}`}
              {isSorted && searched && !searched.all && (
                <> · sorted within the newest {searchedText(searched)}</>
              )}
              {searched?.texts && (
                <span className="max-md:hidden"> · {textsText(searched.texts)}</span>
              )}
            </span>
          )
        }
      />
      <div ref={filterBar}>
        <SampleFilterBar
          view={view}
          onChange={setView}
          rows={shown}
          extraKeys={extraKeys}
          onExport={() => setSheet('export')}
          views={
            <ViewMenu
              view={view}
              saved={savedView.saved}
              onOpen={(next) => setView(next, 'push')}
            />
          }
        />
      </div>
      <Notices
        unread={[...view.unread, ...savedView.unread]}
        viewGone={savedView.gone}
        onDismiss={() => setView({ view: null })}
      />
      {isSelecting && (
        <BulkBar
          selected={selected}
          filter={filter}
          loaded={shown.length}
          hasMore={list.hasNextPage}
          onAll={() => setChosen({ ...selected, all: true })}
          onClear={() => setChosen(noneSelected(listKey))}
          onAnnotate={() => setSheet('annotate')}
          onRescore={() => setSheet('rescore')}
        />
      )}
      <div className="flex min-h-0 flex-1">
        <div className="flex min-w-0 flex-1 flex-col">
          <NewRows count={freshCount} noun={['sample', 'samples']} onShow={showFresh} />
          <QueryView query={list} skeleton={<TableSkeleton columns={8} rows={16} />}>
            {() =>
              shown.length === 0 ? (
                <NoSamples
                  narrowed={isNarrowed(view)}
                  filter={filter}
                  progress={searched?.all ? null : progress}
                  texts={searched?.texts ?? null}
                  isSearching={isSearching}
                  onClear={() => setView({ filter: {} })}
                />
              ) : (
                <SampleTable
                  rows={shown}
                  columns={columns}
                  openId={view.sample}
                  onOpen={(id) => open(id, view.sample === null ? 'push' : 'replace')}
                  hasMore={list.hasNextPage && !needsMore}
                  moreFailure={moreFailure}
                  onMore={loadMore}
                  selection={{
                    has: (id) => selected.all || selected.ids.has(id),
                    all: selected.all,
                    some: isSelecting,
                    toggle: (id, range) => setChosen(toggled(selected, shown, id, range)),
                    toggleShown: () => setChosen(toggledShown(selected, shown)),
                  }}
                  onWidth={(name, px) => setView({ columns: withWidth(view, columns, name, px) })}
                />
              )
            }
          </QueryView>
          {needsMore && (
            <div className="num flex flex-wrap items-center justify-center gap-x-3 gap-y-1 px-5 py-2 text-xs text-ink-3">
              {shown.length > 0 && (
                <span>
                  {plural(shown.length, 'match', 'matches')} so far · {progress}
                </span>
              )}
              <Button small onClick={isSearching ? () => setStoppedKey(listKey) : loadMore}>
                {isSearching ? 'Stop' : 'Continue search'}
              </Button>
            </div>
          )}
        </div>
        {view.sample !== null && (
          <SamplePanel
            key={view.sample}
            id={view.sample}
            searched={filter.text ?? null}
            onOpen={(id) => open(id, 'replace')}
            onClose={() => open(null, 'replace')}
            onWalk={walk}
            nextId={shown[shown.findIndex((row) => row.id === view.sample) + 1]?.id ?? null}
          />
        )}
      </div>
      <ExportSheet
        open={sheet === 'export'}
        filter={filter}
        columns={columns}
        onClose={() => setSheet(null)}
      />
      <AnnotateSheet open={sheet === 'annotate'} target={target} onClose={() => setSheet(null)} />
      <RescoreSamplesSheet
        open={sheet === 'rescore'}
        target={target}
        onClose={() => setSheet(null)}
      />
    </div>
  )
}

/**
 * The error of the last request for more samples, until they are requested again; null if there is none. A live refetch
 * of the loaded samples clears it only if the service was unreachable. Otherwise the failed request would repeat with
 * every change.
 */
function useMoreFailure(
  list: {
    isSuccess: boolean
    isFetchingNextPage: boolean
    isFetchNextPageError: boolean
    error: unknown
  },
  listKey: string,
): unknown {
  const failure = useRef<{ listKey: string; error: unknown } | null>(null)
  if (list.isFetchingNextPage) failure.current = null
  else if (list.isFetchNextPageError) failure.current = { listKey, error: list.error }
  else if (list.isSuccess && describeFailure(failure.current?.error).reason === 'unreachable') {
    failure.current = null
  }
  return failure.current?.listKey === listKey ? failure.current.error : null
}

const NO_KEYS: readonly ExtraKeyDto[] = []

function withWidth(
  view: SampleView,
  columns: readonly SampleColumn[],
  name: string,
  px: number,
): ChosenColumn[] {
  const known = new Map(view.columns?.map((column) => [column.name, column.px]))
  return columns.map((column) => ({
    name: column.name,
    px: column.name === name ? px : (known.get(column.name) ?? null),
  }))
}

type Searched = SamplePageDto['searched']

/**
 * Sums the number of searched samples over pages. All pages of a sorted list search the same samples, so these samples
 * count once.
 */
function sumOfSearched(pages: readonly SamplePageDto[], isSorted: boolean): Searched | null {
  const last = pages.at(-1)?.searched
  if (last === undefined) return null
  return {
    ...last,
    ...(!isSorted && {
      batches: pages.reduce((sum, page) => sum + page.searched.batches, 0),
      samples: pages.reduce((sum, page) => sum + page.searched.samples, 0),
    }),
    texts: last.texts && {
      samples: pages.reduce((sum, page) => sum + (page.searched.texts?.samples ?? 0), 0),
      dropped: pages.reduce((sum, page) => sum + (page.searched.texts?.dropped ?? 0), 0),
    },
  }
}

function searchedText({ samples, batches }: Searched): string {
  return `${plural(samples, 'sample')} of ${plural(batches, 'batch', 'batches')}`
}

function textsText({ samples, dropped }: NonNullable<Searched['texts']>, total?: number): string {
  // Texts between the last match of a page and the end of its search are read again for the next page, so the sum can
  // exceed the total.
  const looked =
    total === undefined
      ? `${plural(samples, 'text')} searched`
      : `${formatCount(Math.min(samples, total))} of ${plural(total, 'text')} searched`
  return dropped === 0 ? looked : `${looked}, ${formatCount(dropped)} removed by retention`
}

/** The progress of a search. `all` is the number of samples whose texts are searched. */
function searchProgress(searched: Searched, all: SampleCountDto | undefined): string {
  const looked = searched.texts
    ? textsText(searched.texts, all?.exact ? all.samples : undefined)
    : `${searchedText(searched)} searched`
  return `${looked}, back to ${searched.oldest}`
}

function noMatchText({ scoreMin, scoreMax, groupSignal, failedToolCall }: SampleFilter): string {
  if (scoreMin !== undefined || scoreMax !== undefined) {
    return 'A score filter excludes samples without a score, such as failed and pending ones.'
  }
  if (groupSignal !== undefined) return 'Groups have a signal only after their batch has ended.'
  if (failedToolCall) return 'Only responses that are messages with tool calls can match.'
  return 'No sample meets all conditions.'
}

function NoSamples({
  narrowed,
  filter,
  progress,
  texts,
  isSearching,
  onClear,
}: {
  narrowed: boolean
  filter: SampleFilter
  /** Null if all samples were searched. */
  progress: string | null
  texts: Searched['texts']
  isSearching: boolean
  onClear(): void
}) {
  if (narrowed && progress !== null) {
    return (
      <Empty
        icon={FilterX}
        title={isSearching ? 'Searching' : 'No matches so far'}
        actions={<Button onClick={onClear}>Clear filters</Button>}
      >
        {progress}. Filter by run, step or batch to narrow the search.
      </Empty>
    )
  }
  return narrowed ? (
    <Empty
      icon={FilterX}
      title="No matching samples"
      actions={<Button onClick={onClear}>Clear filters</Button>}
    >
      {texts !== null
        ? `${textsText(texts)}. The search is literal and ignores case.`
        : noMatchText(filter)}
    </Empty>
  ) : (
    <Empty
      icon={Boxes}
      title="No samples yet"
      actions={
        <PageLink href="/" className={buttonClass('primary')}>
          Submit your first batch
        </PageLink>
      }
    >
      Each rollout of a batch is a sample with its texts, its score and its attempts.
    </Empty>
  )
}

function Notices({
  unread,
  viewGone,
  onDismiss,
}: {
  unread: readonly UnreadParam[]
  viewGone: boolean
  onDismiss(): void
}) {
  const lines = [
    ...(viewGone ? ['The saved view of this link was deleted. The list is shown without it.'] : []),
    ...unread.map(
      ({ name, value, message }) =>
        `The ${name === 'sort' ? 'order' : 'filter'} ${name}=${value.slice(0, 60)} was ignored: it ${message}.`,
    ),
  ]
  if (lines.length === 0) return null
  return (
    <div
      role="status"
      className="flex items-start gap-2.5 border-b bg-warn-soft px-5 py-1.5 text-xs text-ink"
    >
      <Info size={14} className="mt-[3px] shrink-0 text-warn" aria-hidden />
      <ul className="min-w-0 flex-1 py-0.5 break-words">
        {lines.map((line) => (
          <li key={line}>{line}</li>
        ))}
      </ul>
      <IconButton label="Dismiss" onClick={onDismiss}>
        <X size={13} aria-hidden />
      </IconButton>
    </div>
  )
}
