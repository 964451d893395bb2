'use client'

import { keepPreviousData, useInfiniteQuery } from '@tanstack/react-query'
import { FilterX, GitCompareArrows, ListTree } from 'lucide-react'
import { useMemo } from 'react'
import { MAX_COMPARED_RUNS } from '../../server/contract/compare.ts'
import type { RunTableRowDto } from '../../server/contract/run-table.ts'
import { pagesOptions } from '../api/pages.ts'
import { useTRPC, useTRPCClient } from '../api/trpc.ts'
import { compareRunsHref } from '../compare/compare-url.ts'
import { formatCount } from '../format/numbers.ts'
import { PageHeader } from '../shell/page-header.tsx'
import { PageLink } from '../shell/page-link.tsx'
import { Button, buttonClass } from '../ui/button.tsx'
import { Empty } from '../ui/empty.tsx'
import { NewRows } from '../ui/new-rows.tsx'
import { QueryView } from '../ui/query-view.tsx'
import { ShowMore } from '../ui/show-more.tsx'
import { TableSkeleton } from '../ui/skeleton.tsx'
import { useAnnounced } from '../ui/use-announced.ts'
import { useUrl } from '../url/use-url.ts'
import { RunsFilters } from './runs-filters.tsx'
import { RunsTable } from './runs-table.tsx'
import { NO_RUN_FILTERS, runsUrl, runTableInput } from './runs-url.ts'

const idOf = (run: RunTableRowDto) => `${run.tag} ${run.name}`

export function RunsPage() {
  const trpc = useTRPC()
  const client = useTRPCClient()
  const [url, setUrl] = useUrl(runsUrl)
  const input = runTableInput(url)
  const list = useInfiniteQuery({
    ...pagesOptions({
      queryKey: trpc.runs.table.infiniteQueryKey(input),
      read: (cursor, signal) => client.runs.table.query({ ...input, cursor }, { signal }),
      topics: ['runs', 'batches'],
    }),
    placeholderData: keepPreviousData,
  })
  const first = list.data?.pages[0]
  // A run whose figures changed between the reads of two pages may be on both pages, so duplicates are removed.
  const rows = useMemo(() => {
    const all = list.data?.pages.flatMap((page) => page.items)
    return all && [...new Map(all.map((run) => [idOf(run), run])).values()]
  }, [list.data])
  const { shown, freshCount, showFresh } = useAnnounced(
    rows,
    idOf,
    // Until the rows of a new input arrive, the rows of the previous input stay visible.
    list.isPlaceholderData ? 'previous' : JSON.stringify(input),
    list.hasNextPage,
  )
  const isFull = url.chosen.length >= MAX_COMPARED_RUNS
  const hasRuns = first !== undefined && first.runs > 0
  return (
    <>
      <PageHeader
        title="Runs"
        state={hasRuns && <span className="num text-ink-3">{formatCount(first.runs)}</span>}
        actions={
          url.chosen.length > 0 && (
            <>
              <Button small variant="quiet" onClick={() => setUrl({ chosen: [] })}>
                Clear selection
              </Button>
              <PageLink
                href={compareRunsHref(url.chosen)}
                className={buttonClass('primary', true)}
                title={isFull ? `At most ${MAX_COMPARED_RUNS} runs` : undefined}
              >
                <GitCompareArrows size={14} aria-hidden />
                Compare {url.chosen.length}
                {isFull && ' (maximum)'}
              </PageLink>
            </>
          )
        }
      />
      {hasRuns && <RunsFilters url={url} onChange={setUrl} count={first} />}
      <NewRows count={freshCount} noun={['run', 'runs']} onShow={showFresh} />
      <QueryView query={list} skeleton={<TableSkeleton columns={10} rows={14} />}>
        {() =>
          shown.length > 0 ? (
            <>
              <RunsTable runs={shown} url={url} onChange={setUrl} />
              <ShowMore query={list} />
            </>
          ) : hasRuns ? (
            <Empty
              icon={FilterX}
              title="No matching runs"
              actions={<Button onClick={() => setUrl(NO_RUN_FILTERS)}>Clear filters</Button>}
            >
              New runs that match appear here automatically.
            </Empty>
          ) : (
            <NoRuns />
          )
        }
      </QueryView>
    </>
  )
}

function NoRuns() {
  return (
    <Empty
      icon={ListTree}
      title="No runs yet"
      actions={
        <PageLink href="/" className={buttonClass('primary')}>
          Submit your first batch
        </PageLink>
      }
    >
      A run is created by its first batch or by{' '}
      <code className="font-mono text-xs">runs.update</code>. Both give its name in the field{' '}
      <code className="font-mono text-xs">run</code>.
    </Empty>
  )
}
