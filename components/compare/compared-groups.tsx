'use client'

import { keepPreviousData, useInfiniteQuery } from '@tanstack/react-query'
import { useMemo } from 'react'
import type { ComparePairDto } from '../../server/contract/compare.ts'
import { pagesOptions } from '../api/pages.ts'
import { useTRPC, useTRPCClient } from '../api/trpc.ts'
import { formatCount, formatScore } from '../format/numbers.ts'
import { shortenMiddle } from '../format/text.ts'
import { ColumnHeads } from '../ui/column-heads.tsx'
import { QueryView } from '../ui/query-view.tsx'
import { Scroll } from '../ui/scroll.tsx'
import { Section } from '../ui/section.tsx'
import { ShowMore } from '../ui/show-more.tsx'
import { TableSkeleton } from '../ui/skeleton.tsx'
import type { CompareProps } from './compare-url.ts'
import { showDisagreements } from './compared-samples.tsx'

const PAGE = 25

export function ComparedGroupsTable({
  pair,
  onChange,
}: { pair: ComparePairDto } & Pick<CompareProps, 'onChange'>) {
  const trpc = useTRPC()
  const client = useTRPCClient()
  const input = { first: pair.first.batchId, second: pair.second.batchId, limit: PAGE }
  const query = useInfiniteQuery({
    ...pagesOptions({
      // The list changes when the last sample is scored. Until the new list arrives, the previous one stays visible.
      queryKey: [...trpc.compare.groups.infiniteQueryKey(input), pair.isLive ? 'live' : 'final'],
      read: (cursor, signal) => client.compare.groups.query({ ...input, cursor }, { signal }),
      topics: pair.isLive ? [`batch:${pair.first.batchId}`, `batch:${pair.second.batchId}`] : [],
    }),
    placeholderData: keepPreviousData,
  })
  const rows = useMemo(() => query.data?.pages.flatMap(({ items }) => items) ?? [], [query.data])
  const show = (uid: string) => {
    onChange({ uid, signFlipped: false, cell: null })
    showDisagreements()
  }
  return (
    <Section
      className="border-t"
      title="Groups"
      note={`n = ${formatCount(pair.groups.n)}, lowest τ first`}
    >
      <QueryView query={query} skeleton={<TableSkeleton columns={7} rows={6} />} compact>
        {() => (
          <>
            <Scroll label="Groups">
              <table className="grid-table">
                <ColumnHeads
                  columns={[
                    'Group',
                    { end: 'n' },
                    { end: 'τ-b' },
                    { end: 'Discordant pairs' },
                    { end: 'Mean, first' },
                    { end: 'Mean, second' },
                    { end: 'Sign flipped' },
                    'Change',
                  ]}
                />
                <tbody>
                  {rows.map((group) => (
                    <tr key={group.uid} className="cursor-pointer" onClick={() => show(group.uid)}>
                      <td>
                        <button
                          type="button"
                          aria-label={`Show group ${group.uid}`}
                          className="font-mono text-xs font-medium hover:underline"
                          onClick={(event) => {
                            event.stopPropagation()
                            show(group.uid)
                          }}
                        >
                          {shortenMiddle(group.uid, 28)}
                        </button>
                      </td>
                      <td className="num end">{formatCount(group.n)}</td>
                      <td className="num end font-medium">{formatScore(group.tau)}</td>
                      <td className="num end">
                        {formatCount(group.reversed)}
                        <span className="unit"> of {formatCount(group.comparable)}</span>
                      </td>
                      <td className="num end">{formatScore(group.firstMean)}</td>
                      <td className="num end">{formatScore(group.secondMean)}</td>
                      <td className="num end">{formatCount(group.signFlipped)}</td>
                      <td className="text-ink-2">{changesOf(group)}</td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </Scroll>
            <ShowMore query={query} />
          </>
        )}
      </QueryView>
    </Section>
  )
}

function changesOf(group: {
  bestChanged: boolean
  noSignalFirst: boolean
  noSignalSecond: boolean
}): string {
  if (group.noSignalFirst && group.noSignalSecond) return 'No signal in both'
  if (group.noSignalSecond) return 'Signal only in the first batch'
  if (group.noSignalFirst) return 'Signal only in the second batch'
  return group.bestChanged ? 'Best sample differs' : ''
}
