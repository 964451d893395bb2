'use client'

import { useQuery } from '@tanstack/react-query'
import { GitCompareArrows, RotateCcw } from 'lucide-react'
import { useState } from 'react'
import type { ComparedBatchDto } from '../../server/contract/compare.ts'
import { describeFailure } from '../api/failure.ts'
import { useTRPC } from '../api/trpc.ts'
import { RescoreSheet } from '../batches/rescore-sheet.tsx'
import { formatCount } from '../format/numbers.ts'
import { useMay } from '../session/use-may.ts'
import { PageLink } from '../shell/page-link.tsx'
import { Button, buttonClass } from '../ui/button.tsx'
import { Empty } from '../ui/empty.tsx'
import { FailureView } from '../ui/failure-view.tsx'
import { QueryView } from '../ui/query-view.tsx'
import { Section } from '../ui/section.tsx'
import { TableSkeleton } from '../ui/skeleton.tsx'
import { BatchChoice, BatchField } from './batch-choice.tsx'
import type { CompareProps } from './compare-url.ts'
import { SideBlock } from './pair-sides.tsx'

export function ChooseSecond({
  first,
  onChange,
}: Pick<CompareProps, 'onChange'> & { first: string }) {
  const trpc = useTRPC()
  const candidates = useQuery(
    trpc.compare.candidates.queryOptions({ batchId: first }, { meta: { topics: ['batches'] } }),
  )
  const choose = (second: string) => onChange({ second }, 'push')
  if (candidates.error !== null && describeFailure(candidates.error).reason === 'batch_not_found') {
    return (
      <Empty
        icon={GitCompareArrows}
        title={describeFailure(candidates.error).message}
        actions={
          <PageLink href="/compare" className={buttonClass()}>
            Select another batch
          </PageLink>
        }
      />
    )
  }
  return (
    <QueryView query={candidates} skeleton={<TableSkeleton columns={6} rows={6} />}>
      {({ batch, sameRollouts, sameStep }) =>
        batch && (
          <>
            <div className="grid border-b md:grid-cols-2">
              <SideBlock side="first" batch={batch} />
              <div className="flex flex-wrap items-start gap-x-6 gap-y-3 border-t px-5 py-4 md:border-t-0 md:border-l">
                <Rescore batch={batch} onDone={choose} />
                <BatchField label="Other batch" action="Compare" onChoose={choose} />
              </div>
            </div>
            <Section title="Same rollouts" note={formatCount(sameRollouts.length)}>
              {sameRollouts.length === 0 ? (
                <p className="px-5 pb-6 text-ink-2">
                  {batch.batchId} has not been rescored yet. Rescore it with another reward to
                  compare the two rewards. The comparison updates while samples are scored.
                </p>
              ) : (
                <BatchChoice label="Same rollouts" batches={sameRollouts} onChoose={choose} />
              )}
            </Section>
            {sameStep.length > 0 && (
              <Section
                title="Same run and step"
                note="Matched by uid and response"
                className="border-t"
              >
                <BatchChoice label="Same run and step" batches={sameStep} onChoose={choose} />
              </Section>
            )}
          </>
        )
      }
    </QueryView>
  )
}

export function Rescore({
  batch,
  onDone,
}: {
  batch: ComparedBatchDto
  onDone(batchId: string): void
}) {
  const trpc = useTRPC()
  const refused = useMay('trainer')
  const [open, setOpen] = useState(false)
  const view = useQuery({
    ...trpc.batches.view.queryOptions({ batchId: batch.batchId }),
    enabled: open,
    staleTime: 60_000,
  })
  if (batch.status === 'open') {
    return (
      <p className="max-w-72 text-ink-2">
        {batch.batchId} is open, so more samples may follow. It can be rescored once it is closed.
      </p>
    )
  }
  return (
    <div>
      <p className="mb-1 text-xs font-medium text-ink-2">Another reward</p>
      <Button
        variant="primary"
        refused={refused}
        busy={open && view.isLoading}
        onClick={() => setOpen(true)}
      >
        <RotateCcw size={14} aria-hidden />
        Rescore {batch.batchId}
      </Button>
      {open && view.error && (
        <FailureView compact error={view.error} onRetry={() => void view.refetch()} />
      )}
      {view.data && (
        <RescoreSheet
          batch={view.data}
          open={open}
          onClose={() => setOpen(false)}
          onDone={onDone}
        />
      )}
    </div>
  )
}
