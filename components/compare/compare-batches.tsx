'use client'

import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { GitCompareArrows } from 'lucide-react'
import { describeFailure } from '../api/failure.ts'
import { useTRPC } from '../api/trpc.ts'
import { PageLink } from '../shell/page-link.tsx'
import { buttonClass } from '../ui/button.tsx'
import { Empty } from '../ui/empty.tsx'
import { FigureStripSkeleton } from '../ui/figure-strip.tsx'
import { QueryView } from '../ui/query-view.tsx'
import { ChartSkeleton, TableSkeleton } from '../ui/skeleton.tsx'
import { ChoosePair } from './choose-pair.tsx'
import { ChooseSecond } from './choose-second.tsx'
import type { CompareProps } from './compare-url.ts'
import { PairView } from './pair-view.tsx'

export function CompareBatches({ url, onChange }: CompareProps) {
  if (url.first === null) return <ChoosePair onChange={onChange} />
  if (url.second === null) return <ChooseSecond first={url.first} onChange={onChange} />
  return <Pair first={url.first} second={url.second} url={url} onChange={onChange} />
}

function Pair({ first, second, url, onChange }: CompareProps & { first: string; second: string }) {
  const trpc = useTRPC()
  const pair = useQuery(
    trpc.compare.pair.queryOptions(
      { first, second },
      {
        meta: { topics: [`batch:${first}`, `batch:${second}`] },
        placeholderData: keepPreviousData,
      },
    ),
  )
  if (pair.error !== null && describeFailure(pair.error).reason === 'batch_not_found') {
    return (
      <Empty
        icon={GitCompareArrows}
        title={describeFailure(pair.error).message}
        actions={
          <PageLink href="/compare" className={buttonClass()}>
            Select two batches
          </PageLink>
        }
      >
        Either the link is from another service, or retention removed the batches.
      </Empty>
    )
  }
  return (
    <QueryView query={pair} skeleton={<PairSkeleton />}>
      {(data) => (
        <PairView
          pair={data}
          // While another pair loads, the previous one stays visible.
          isOld={data.first.batchId !== first || data.second.batchId !== second}
          url={url}
          onChange={onChange}
        />
      )}
    </QueryView>
  )
}

function PairSkeleton() {
  return (
    <>
      <TableSkeleton columns={4} rows={2} />
      <FigureStripSkeleton />
      <div className="grid gap-6 py-6 lg:grid-cols-2">
        <ChartSkeleton height={300} />
        <ChartSkeleton height={300} />
      </div>
    </>
  )
}
