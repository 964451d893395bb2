'use client'

import {
  type InfiniteData,
  keepPreviousData,
  type UseInfiniteQueryResult,
  useInfiniteQuery,
} from '@tanstack/react-query'
import { X } from 'lucide-react'
import { type ReactNode, useEffect, useMemo } from 'react'
import type {
  ComparedPage,
  ComparedSampleDto,
  ComparePairDto,
  DisagreementMeasure,
} from '../../server/contract/compare.ts'
import { DISAGREEMENT_MEASURES } from '../../server/contract/compare.ts'
import { pagesOptions } from '../api/pages.ts'
import { useTRPC, useTRPCClient } from '../api/trpc.ts'
import { placeText } from '../charts/joint.prepare.ts'
import {
  formatCount,
  formatPoints,
  formatScore,
  formatSigned,
  percentText,
  quantityText,
} from '../format/numbers.ts'
import { shortenMiddle } from '../format/text.ts'
import { useKeys } from '../shell/keys.tsx'
import { IconButton } from '../ui/button.tsx'
import { ColumnHeads } from '../ui/column-heads.tsx'
import { Segmented } from '../ui/field.tsx'
import { rowToOpen, useLastOpen } from '../ui/open-row.ts'
import { QueryView } from '../ui/query-view.tsx'
import { Scroll } from '../ui/scroll.tsx'
import { Section } from '../ui/section.tsx'
import { ShowMore } from '../ui/show-more.tsx'
import { TableSkeleton } from '../ui/skeleton.tsx'
import type { CompareProps, CompareUrl } from './compare-url.ts'
import { MEASURE_LABEL, SIDE_COLOR } from './pair-words.ts'

const PAGE = 25
const WIDE = '@max-[900px]:hidden'

interface ComparedList {
  query: UseInfiniteQueryResult<InfiniteData<ComparedPage<ComparedSampleDto>>>
  rows: readonly ComparedSampleDto[]
  by: DisagreementMeasure
  /** The open sample; null until it is loaded, and while none is open. */
  openRow: ComparedSampleDto | null
  walk(by: 1 | -1): void
}

/**
 * Reads the samples, largest disagreement first. J opens the next sample, K the previous sample, and Esc closes the
 * open sample.
 */
export function useComparedSamples(
  pair: ComparePairDto,
  url: CompareUrl,
  onChange: CompareProps['onChange'],
): ComparedList {
  const trpc = useTRPC()
  const client = useTRPCClient()
  // Without groups there are no advantages to compare.
  const by = url.by ?? (pair.groups.n > 0 ? 'advantage' : 'rank')
  const input = {
    first: pair.first.batchId,
    second: pair.second.batchId,
    by,
    limit: PAGE,
    signFlipped: url.signFlipped,
    ...(url.uid === null ? {} : { uid: url.uid }),
    ...(url.cell === null ? {} : { cell: url.cell }),
  }
  const query = useInfiniteQuery({
    ...pagesOptions({
      // The list changes when the last sample is scored. Until the new list arrives, the previous one stays visible.
      queryKey: [...trpc.compare.samples.infiniteQueryKey(input), pair.isLive ? 'live' : 'final'],
      read: (cursor, signal) => client.compare.samples.query({ ...input, cursor }, { signal }),
      topics: pair.isLive ? [`batch:${pair.first.batchId}`, `batch:${pair.second.batchId}`] : [],
    }),
    placeholderData: keepPreviousData,
  })
  const rows = useMemo(() => query.data?.pages.flatMap(({ items }) => items) ?? [], [query.data])
  const openAt = rows.findIndex((row) => row.firstId === url.open?.first)
  const lastOpen = useLastOpen(url.open?.first ?? null)
  const walk = (step: 1 | -1) => {
    const at = rows.findIndex((row) => row.firstId === lastOpen)
    const next = rowToOpen(rows, at, step, url.open !== null)
    if (next !== undefined)
      onChange(
        { open: { first: next.firstId, second: next.secondId } },
        url.open === null ? 'push' : 'replace',
      )
    if (at + step > rows.length - 5 && query.hasNextPage && !query.isFetchingNextPage)
      void query.fetchNextPage()
  }
  useKeys([
    { key: 'j', label: 'Next disagreement', group: 'Compare', run: () => walk(1) },
    { key: 'k', label: 'Previous disagreement', group: 'Compare', run: () => walk(-1) },
    {
      key: 'Escape',
      label: 'Close sample',
      group: 'Compare',
      run: () => onChange({ open: null }),
    },
  ])
  return { query, rows, by, openRow: rows[openAt] ?? null, walk }
}

const SECTION = 'disagreements'

export function showDisagreements(): void {
  document.getElementById(SECTION)?.scrollIntoView({ block: 'start' })
}

export function ComparedSamples({
  list,
  pair,
  url,
  onChange,
}: CompareProps & { list: ComparedList; pair: ComparePairDto }) {
  const { query, rows, by } = list
  const total = query.data?.pages[0]?.total
  return (
    <Section
      id={SECTION}
      className="border-t"
      title="Largest disagreements"
      note={total === undefined ? undefined : `n = ${formatCount(total)}, largest first`}
      actions={
        <>
          {url.cell !== null && pair.joint !== null && (
            <Narrowed remove="Remove score filter" onRemove={() => onChange({ cell: null })}>
              First {placeText(pair.joint.first, url.cell[0])}, second{' '}
              {placeText(pair.joint.second, url.cell[1])}
            </Narrowed>
          )}
          {url.uid !== null && (
            <Narrowed remove="Remove group filter" onRemove={() => onChange({ uid: null })}>
              Group <span className="font-mono">{shortenMiddle(url.uid, 18)}</span>
            </Narrowed>
          )}
          <Segmented
            label="Filter samples"
            value={url.signFlipped ? 'signFlipped' : 'all'}
            options={[
              { value: 'all', label: 'All' },
              { value: 'signFlipped', label: 'Sign flipped' },
            ]}
            onChange={(which) => onChange({ signFlipped: which === 'signFlipped' })}
          />
          <Segmented
            label="Sort by difference"
            value={by}
            options={DISAGREEMENT_MEASURES.map((value) => ({ value, label: MEASURE_LABEL[value] }))}
            onChange={(measure) => onChange({ by: measure })}
          />
        </>
      }
    >
      <QueryView query={query} skeleton={<TableSkeleton columns={7} rows={8} />} compact>
        {() =>
          rows.length === 0 ? (
            <p className="px-5 pb-6 text-ink-2">
              {url.signFlipped
                ? 'No advantage sign flipped.'
                : by === 'advantage'
                  ? 'No group has two samples scored by both rewards. Sort by rank instead.'
                  : 'No samples.'}
            </p>
          ) : (
            <>
              <Rows rows={rows} by={by} openId={url.open?.first ?? null} onChange={onChange} />
              <ShowMore query={query} />
            </>
          )
        }
      </QueryView>
    </Section>
  )
}

function Narrowed({
  remove,
  onRemove,
  children,
}: {
  remove: string
  onRemove(): void
  children: ReactNode
}) {
  return (
    <span className="num inline-flex h-7 items-center gap-1 rounded-md border pl-2.5 text-xs">
      {children}
      <IconButton label={remove} onClick={onRemove}>
        <X size={13} aria-hidden />
      </IconButton>
    </span>
  )
}

function Rows({
  rows,
  by,
  openId,
  onChange,
}: Pick<CompareProps, 'onChange'> & {
  rows: readonly ComparedSampleDto[]
  by: DisagreementMeasure
  openId: string | null
}) {
  useEffect(() => {
    if (openId === null) return
    document.querySelector(`[data-compared-row="${openId}"]`)?.scrollIntoView({ block: 'nearest' })
  }, [openId])
  const open = (row: ComparedSampleDto) =>
    onChange(
      { open: { first: row.firstId, second: row.secondId } },
      openId === null ? 'push' : 'replace',
    )
  return (
    <Scroll label="Largest disagreements">
      <table className="grid-table">
        <ColumnHeads
          columns={[
            'Sample',
            { start: 'Group', className: WIDE },
            { start: 'Data source', className: WIDE },
            ofSide('first', 'Score, first'),
            ofSide('second', 'Score, second'),
            ofSide('first', 'Advantage, first'),
            ofSide('second', 'Advantage, second'),
            { ...ofSide('first', 'Rank, first'), className: WIDE },
            { ...ofSide('second', 'Rank, second'), className: WIDE },
            { end: `${MEASURE_LABEL[by]} difference` },
          ]}
        />
        <tbody>
          {rows.map((row) => (
            <tr
              key={row.firstId}
              aria-current={row.firstId === openId || undefined}
              data-compared-row={row.firstId}
              className="cursor-pointer scroll-mt-24 scroll-mb-6 aria-[current]:[&>td]:bg-selected"
              onClick={() => open(row)}
            >
              <td>
                <button
                  type="button"
                  className="font-mono text-xs font-medium hover:underline"
                  aria-label={`Open ${row.firstId} and ${row.secondId}`}
                  onClick={(event) => {
                    event.stopPropagation()
                    open(row)
                  }}
                >
                  {row.firstId}
                </button>
              </td>
              <td className={`font-mono text-xs text-ink-2 ${WIDE}`}>
                {shortenMiddle(row.uid, 18)}
              </td>
              <td className={`text-ink-2 ${WIDE}`}>
                <span className="block max-w-40 truncate">{row.dataSource}</span>
              </td>
              <td className="num end">{formatScore(row.first)}</td>
              <td className="num end">{formatScore(row.second)}</td>
              <td className="num end">{formatSigned(row.firstAdvantage)}</td>
              <td className={`num end ${row.signFlipped ? 'font-medium text-bad' : ''}`}>
                {formatSigned(row.secondAdvantage)}
              </td>
              <td className={`num end text-ink-2 ${WIDE}`}>{percentText(row.firstRank)}</td>
              <td className={`num end text-ink-2 ${WIDE}`}>{percentText(row.secondRank)}</td>
              <td className="num end font-medium">{differenceOf(row, by)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </Scroll>
  )
}

function ofSide(side: 'first' | 'second', text: string) {
  return {
    end: (
      <span className="inline-flex items-center gap-1.5">
        <span
          className="size-2 rounded-[2px]"
          style={{ background: SIDE_COLOR[side] }}
          aria-hidden
        />
        {text}
      </span>
    ),
  }
}

function differenceOf(row: ComparedSampleDto, by: DisagreementMeasure): string {
  if (by === 'rank') return quantityText(formatPoints(row.secondRank - row.firstRank))
  const [first, second] =
    by === 'score' ? [row.first, row.second] : [row.firstAdvantage, row.secondAdvantage]
  return first === null || second === null ? '–' : formatSigned(second - first)
}
