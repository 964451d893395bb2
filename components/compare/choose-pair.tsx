'use client'

import { useQuery } from '@tanstack/react-query'
import { ArrowRight, GitCompareArrows } from 'lucide-react'
import { type ComparedBatchDto, MAX_SUGGESTED } from '../../server/contract/compare.ts'
import { useTRPC } from '../api/trpc.ts'
import { RunName } from '../batches/batch-cells.tsx'
import { formatCount, formatScore, newestText } from '../format/numbers.ts'
import { PageLink } from '../shell/page-link.tsx'
import { Ago } from '../ui/ago.tsx'
import { buttonClass } from '../ui/button.tsx'
import { ColumnHeads } from '../ui/column-heads.tsx'
import { Empty } from '../ui/empty.tsx'
import { QueryView } from '../ui/query-view.tsx'
import { Scroll } from '../ui/scroll.tsx'
import { Section } from '../ui/section.tsx'
import { TableSkeleton } from '../ui/skeleton.tsx'
import { BatchStatusView } from '../ui/status.tsx'
import { BatchField, RewardOf } from './batch-choice.tsx'
import { type CompareProps, comparePairHref } from './compare-url.ts'

export function ChoosePair({ onChange }: Pick<CompareProps, 'onChange'>) {
  const trpc = useTRPC()
  const pairs = useQuery(
    trpc.compare.candidates.queryOptions({}, { meta: { topics: ['batches'] } }),
  )
  const field = (
    <BatchField
      label="Select a batch"
      action="Select"
      onChoose={(first) => onChange({ first }, 'push')}
    />
  )
  return (
    <QueryView query={pairs} skeleton={<TableSkeleton columns={6} rows={6} />}>
      {({ recent }) =>
        recent.length === 0 ? (
          <>
            <Empty
              icon={GitCompareArrows}
              title="No rescored batches yet"
              actions={
                <PageLink href="/batches" className={buttonClass('primary')}>
                  View batches
                </PageLink>
              }
            >
              Rescore the rollouts of a batch with a second reward to compare both rewards sample by
              sample. Any two batches with the same rollouts or the same prompts can be compared.
            </Empty>
            <div className="flex justify-center pb-16">{field}</div>
          </>
        ) : (
          <>
            <div className="border-b px-5 py-4">{field}</div>
            <Section
              title="Rescored batches"
              note={newestText(recent.length, recent.length >= MAX_SUGGESTED)}
            >
              <Scroll label="Rescored batches">
                <table className="grid-table">
                  <ColumnHeads
                    columns={[
                      'Batches',
                      'Rewards',
                      'Run',
                      { end: 'Step' },
                      { end: 'Samples' },
                      { end: 'Means' },
                      'Status',
                      { end: 'Rescored' },
                    ]}
                  />
                  <tbody>
                    {recent.map(({ first, second }) => (
                      <tr key={second.batchId}>
                        <td>
                          <PageLink
                            href={comparePairHref(first.batchId, second.batchId)}
                            className="inline-flex items-center gap-1.5 font-mono text-xs font-medium hover:underline"
                          >
                            {first.batchId}
                            <ArrowRight size={12} aria-label="and" className="text-ink-3" />
                            {second.batchId}
                          </PageLink>
                        </td>
                        <td>
                          <Rewards first={first} second={second} />
                        </td>
                        <td className="name">
                          <RunName run={second.run} />
                        </td>
                        <td className="num end">{formatCount(second.step)}</td>
                        <td className="num end">{formatCount(second.samples)}</td>
                        <td className="num end">
                          {formatScore(first.mean)}
                          <span className="text-ink-3"> · </span>
                          {formatScore(second.mean)}
                        </td>
                        <td>
                          <BatchStatusView status={second.status} />
                        </td>
                        <td className="end text-ink-2">
                          <Ago at={second.submittedAt} />
                        </td>
                      </tr>
                    ))}
                  </tbody>
                </table>
              </Scroll>
            </Section>
          </>
        )
      }
    </QueryView>
  )
}

function Rewards({ first, second }: { first: ComparedBatchDto; second: ComparedBatchDto }) {
  return (
    <span className="inline-flex max-w-96 items-center gap-1.5">
      <RewardOf batch={first} />
      <ArrowRight size={12} aria-label="and" className="shrink-0 text-ink-3" />
      <RewardOf batch={second} />
    </span>
  )
}
