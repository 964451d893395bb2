'use client'

import { keepPreviousData, useInfiniteQuery, useQuery } from '@tanstack/react-query'
import { Download, FilterX, MessageSquareText } from 'lucide-react'
import { useMemo, useRef } from 'react'
import {
  PROMPT_CLASS_TEXT,
  type PromptCountsDto,
  type PromptRowDto,
} from '../../server/contract/prompts.ts'
import { describeFailure } from '../api/failure.ts'
import { pagesOptions } from '../api/pages.ts'
import { useTRPC, useTRPCClient } from '../api/trpc.ts'
import { MarksProvider } from '../charts/marks.ts'
import { formatCount, plural } from '../format/numbers.ts'
import { clockTime } from '../format/time.ts'
import { RunMissing, RunSplits, useRunMarks } from '../runs/run-head.tsx'
import { Choice, SearchField } from '../samples/filter-fields.tsx'
import { useKeys } from '../shell/keys.tsx'
import { PageHeader } from '../shell/page-header.tsx'
import { PageLink } from '../shell/page-link.tsx'
import { Button, buttonClass } from '../ui/button.tsx'
import { Empty } from '../ui/empty.tsx'
import { Segmented } from '../ui/field.tsx'
import { NewRows } from '../ui/new-rows.tsx'
import { QueryView } from '../ui/query-view.tsx'
import { Select } from '../ui/select.tsx'
import { ShowMore } from '../ui/show-more.tsx'
import { TableSkeleton } from '../ui/skeleton.tsx'
import { useAnnounced } from '../ui/use-announced.ts'
import { useUrl } from '../url/use-url.ts'
import { ClassChips } from './class-chips.tsx'
import { CHANGE_VISITS } from './prompt-cells.tsx'
import { PromptHeat } from './prompt-heat.tsx'
import { PromptSteps } from './prompt-steps.tsx'
import { PromptTable } from './prompt-table.tsx'
import {
  filterOfAllClasses,
  orderingOf,
  PROMPT_SORTS,
  PROMPT_VIEWS,
  type PromptsUrl,
  promptFilter,
  promptsUrl,
} from './prompts-url.ts'
import { MAX_SAVED, usePromptsCsv } from './use-prompts-csv.ts'

const PAGE = 50
/** Lists of more pages than this stop refreshing, because each page reads all prompts of the run. */
const LIVE_PAGES = 3
const keyOf = (prompt: PromptRowDto) => prompt.key

type SetUrl = (change: Partial<PromptsUrl>) => void

export function PromptsPage({ run: name }: { run: string }) {
  const trpc = useTRPC()
  const [url, setUrl] = useUrl(promptsUrl)
  const run = useQuery(
    trpc.runs.get.queryOptions(
      { name, split: url.split },
      { meta: { topics: ['batches'] }, placeholderData: keepPreviousData },
    ),
  )
  const counts = useQuery(
    trpc.prompts.counts.queryOptions(filterOfAllClasses(name, url), {
      meta: { topics: ['batches'], minGapMs: 5_000 },
      placeholderData: keepPreviousData,
    }),
  )
  const marks = useRunMarks(name, run.data)
  const error = counts.error ?? run.error
  const isMissing = error !== null && describeFailure(error).reason === 'run_not_found'
  const isFiltered = url.source !== null || url.search !== null || url.class !== null
  const isEmpty = !isFiltered && counts.data?.total === 0 && !counts.isPlaceholderData
  return (
    <>
      <PageHeader
        parent={{
          href: `/runs/${encodeURIComponent(name)}${url.split === 'val' ? '?split=val' : ''}`,
          label: name,
        }}
        title="Prompts"
        state={
          counts.data &&
          counts.data.total > 0 && (
            <span className="num text-ink-3 max-sm:hidden">{formatCount(counts.data.total)}</span>
          )
        }
        actions={
          run.data && (
            <RunSplits
              run={run.data}
              split={url.split}
              onChange={(split) => setUrl({ split, zoom: null })}
            />
          )
        }
      />
      {isMissing ? (
        <RunMissing name={name} />
      ) : isEmpty ? (
        <NoPrompts run={name} split={url.split} groups={counts.data?.groupsWithoutPrompt ?? 0} />
      ) : (
        <MarksProvider value={marks}>
          <Filters url={url} counts={counts.data} onChange={setUrl} />
          {url.view === 'list' && (
            <List run={name} url={url} counts={counts.data} setUrl={setUrl} />
          )}
          {url.view === 'heat' && <PromptHeat run={name} url={url} />}
          {url.view === 'steps' && <PromptSteps run={name} url={url} onChange={setUrl} />}
        </MarksProvider>
      )}
    </>
  )
}

function Filters({
  url,
  counts,
  onChange,
}: {
  url: PromptsUrl
  counts: PromptCountsDto | undefined
  onChange: SetUrl
}) {
  const line = useRef<HTMLDivElement>(null)
  useKeys([
    {
      key: 'f',
      label: 'Filter',
      group: 'This page',
      run: () => line.current?.querySelector('input')?.focus(),
    },
  ])
  const without = counts?.groupsWithoutPrompt ?? 0
  return (
    <div ref={line} className="flex flex-col gap-2 border-b px-5 py-2">
      <div className="flex flex-wrap items-center gap-2">
        <Segmented
          label="View"
          value={url.view}
          options={PROMPT_VIEWS}
          onChange={(view) => onChange({ view })}
        />
        {url.view === 'steps' ? (
          <span className="text-xs text-ink-3">All groups of each step</span>
        ) : (
          <>
            <SearchField
              label="Search prompts"
              placeholder="Search ID or first 300 characters"
              maxChars={200}
              value={url.search}
              onCommit={(search) => onChange({ search: search ?? null })}
            />
            <Choice
              label="Data source"
              searchable
              all="All sources"
              value={url.source}
              options={counts?.dataSources.map(({ name }) => name) ?? []}
              counts={
                counts && new Map(counts.dataSources.map(({ name, prompts }) => [name, prompts]))
              }
              onChange={(source) => onChange({ source })}
              width="w-44"
            />
            {url.view === 'list' && (
              <span className="w-40 sm:ml-auto">
                <Select
                  label="Sort by"
                  hideLabel
                  value={url.sort}
                  options={PROMPT_SORTS}
                  onChange={(sort) => onChange({ sort })}
                />
              </span>
            )}
          </>
        )}
      </div>
      {url.view !== 'steps' && (
        <ClassChips
          counts={counts}
          chosen={url.class}
          onChoose={(name) => onChange({ class: name })}
        />
      )}
      {without > 0 && (
        <p className="num text-xs text-ink-3">
          {plural(without, 'group')} without a prompt {without === 1 ? 'is' : 'are'} not listed.
        </p>
      )}
    </div>
  )
}

function List({
  run,
  url,
  counts,
  setUrl,
}: {
  run: string
  url: PromptsUrl
  counts: PromptCountsDto | undefined
  setUrl: SetUrl
}) {
  const trpc = useTRPC()
  const client = useTRPCClient()
  const input = useMemo(
    () => ({
      ...promptFilter(run, url),
      ...orderingOf(url.sort),
    }),
    [run, url],
  )
  const loadedPages = useRef(1)
  const list = useInfiniteQuery(
    pagesOptions({
      queryKey: trpc.prompts.list.infiniteQueryKey(input),
      read: (cursor, signal) =>
        client.prompts.list.query({ ...input, cursor, limit: PAGE }, { signal }),
      topics: loadedPages.current > LIVE_PAGES ? [] : ['batches'],
    }),
  )
  loadedPages.current = list.data?.pages.length ?? 1
  const rows = useMemo(() => list.data?.pages.flatMap(({ items }) => items), [list.data])
  const { shown, freshCount, showFresh } = useAnnounced(
    ...([rows, keyOf, JSON.stringify(input), list.hasNextPage] as const),
  )
  const csv = usePromptsCsv(input)
  const total = counts && (url.class === null ? counts.total : counts.byClass[url.class])
  return (
    <>
      <NewRows count={freshCount} noun={['prompt', 'prompts']} onShow={showFresh} />
      <QueryView query={list} skeleton={<TableSkeleton columns={8} rows={16} />}>
        {() =>
          shown.length === 0 ? (
            <NoMatches
              run={run}
              url={url}
              onClear={() => setUrl({ class: null, source: null, search: null })}
            />
          ) : (
            <>
              <PromptTable run={run} split={url.split} prompts={shown} />
              <div className="flex flex-wrap items-center gap-x-3 border-t pr-5">
                <ShowMore query={list}>{`Show ${PAGE} more`}</ShowMore>
                <span className="num py-3 text-xs text-ink-3 first:pl-5">
                  {formatCount(shown.length)}
                  {total === undefined ? '' : ` of ${formatCount(total)}`}
                  {loadedPages.current > LIVE_PAGES && ` · as of ${clockTime(list.dataUpdatedAt)}`}
                </span>
                <Button
                  small
                  variant="quiet"
                  className="ml-auto"
                  busy={csv.isBusy}
                  title={
                    (total ?? 0) > MAX_SAVED
                      ? `The first ${formatCount(MAX_SAVED)} prompts in the list`
                      : 'All prompts in the list'
                  }
                  onClick={csv.save}
                >
                  <Download size={13} aria-hidden />
                  {csv.isBusy ? 'Saving…' : 'Save as CSV'}
                </Button>
              </div>
              {csv.error !== null && (
                <p role="alert" className="px-5 pb-3 text-xs text-bad">
                  {csv.error}
                </p>
              )}
            </>
          )
        }
      </QueryView>
    </>
  )
}

function NoMatches({ run, url, onClear }: { run: string; url: PromptsUrl; onClear(): void }) {
  const { class: name, source, search } = url
  const trpc = useTRPC()
  const mostVisited = useQuery(
    trpc.prompts.list.queryOptions(
      { ...filterOfAllClasses(run, url), ...orderingOf('visits'), limit: 1 },
      { enabled: name !== null, meta: { topics: ['batches'], minGapMs: 5_000 } },
    ),
  )
  const visits = mostVisited.data?.items[0]?.visits ?? CHANGE_VISITS
  return (
    <Empty
      icon={FilterX}
      title={
        name === null || source !== null || search !== null
          ? 'No matching prompts'
          : `No ${name.replace('_', ' ')} prompts in this run`
      }
      actions={<Button onClick={onClear}>Clear filters</Button>}
    >
      {name !== null && <p>{PROMPT_CLASS_TEXT[name]}</p>}
      {name !== null && visits < CHANGE_VISITS && (
        <p>So far, no prompt has more than {plural(visits, 'visit')}.</p>
      )}
      {search !== null && (
        <p>The search covers the ID and the first 300 characters of a prompt, and ignores case.</p>
      )}
    </Empty>
  )
}

function NoPrompts({
  run,
  split,
  groups,
}: {
  run: string
  split: 'train' | 'val'
  groups: number
}) {
  return (
    <Empty
      icon={MessageSquareText}
      title={split === 'val' ? 'No validation prompts yet' : 'No prompts yet'}
      actions={
        <PageLink
          href={`/batches?run=${encodeURIComponent(run)}`}
          className={buttonClass('plain', true)}
        >
          View batches
        </PageLink>
      }
    >
      {groups > 0
        ? `${plural(groups, 'group')} of the run ${groups === 1 ? 'has' : 'have'} no prompt. Send prompt or promptId with each sample.`
        : 'Prompts appear when their batch has ended and has scored samples.'}
    </Empty>
  )
}
