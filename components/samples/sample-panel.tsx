'use client'

import { useQuery, useQueryClient } from '@tanstack/react-query'
import { FlaskConical } from 'lucide-react'
import { lazy, Suspense, useEffect } from 'react'
import { useTRPC } from '../api/trpc.ts'
import { tryHref } from '../rewards/rewards-url.ts'
import { SearchedText } from '../rollouts/rollout-context.ts'
import { PageLink } from '../shell/page-link.tsx'
import { CopyText } from '../ui/copy-text.tsx'
import { DockedPanel } from '../ui/docked-panel.tsx'
import { Otherwise } from '../ui/otherwise.tsx'
import { QueryView } from '../ui/query-view.tsx'
import { Skeleton } from '../ui/skeleton.tsx'
import { SampleStatusView } from '../ui/status.tsx'
import type { ReadSample } from './sample-texts.tsx'

const loadDetails = () => import('./sample-details.tsx')
/** The script of the details is loaded with the first opened sample, because only the details render texts. */
const SampleDetails = lazy(async () => ({ default: (await loadDetails()).SampleDetails }))

export function SamplePanel({
  id,
  nextId,
  searched,
  onOpen,
  onClose,
  onWalk,
}: {
  id: string
  nextId: string | null
  searched: string | null
  onOpen(id: string): void
  onClose(): void
  onWalk(by: 1 | -1): void
}) {
  const trpc = useTRPC()
  const queryClient = useQueryClient()
  const batchId = id.slice(0, id.indexOf('-'))
  const sample = useQuery(
    trpc.samples.get.queryOptions(
      { id, imagesByHash: true },
      {
        // Ended samples never change. Other samples are refetched.
        staleTime: (query) => (hasEnded(query.state.data) ? Number.POSITIVE_INFINITY : 1_000),
        meta: { topics: [`batch:${batchId}`] },
      },
    ),
  )
  useEffect(() => void loadDetails().catch(() => {}), [])
  const arrived = sample.data !== undefined
  // Prefetches the next sample, which is likely to be opened next.
  useEffect(() => {
    if (!arrived || nextId === null) return
    void queryClient.prefetchQuery(
      trpc.samples.get.queryOptions({ id: nextId, imagesByHash: true }, { staleTime: 60_000 }),
    )
  }, [arrived, nextId, queryClient, trpc])
  return (
    <DockedPanel
      label={`Sample ${id}`}
      opener={`Open sample ${id}`}
      heading={
        <>
          <h2 className="text-sm">
            <CopyText text={id} />
          </h2>
          <span className="ml-3 min-w-0 truncate text-xs">
            {sample.data && <SampleStatusView status={sample.data.status} />}
          </span>
        </>
      }
      noun="sample"
      details={`Sample ${id}, details`}
      actions={
        <PageLink
          href={tryHref({}, id)}
          aria-label="Open in playground"
          title="Open in playground"
          className="quick inline-flex size-7 shrink-0 items-center justify-center rounded-md text-ink-2 transition-colors hover:bg-hover hover:text-ink"
        >
          <FlaskConical size={15} aria-hidden />
        </PageLink>
      }
      onClose={onClose}
      onWalk={onWalk}
    >
      <QueryView query={sample} skeleton={<PanelSkeleton />}>
        {(data) => (
          <SearchedText value={searched}>
            <Otherwise fallback={<NotLoaded />}>
              <Suspense fallback={<PanelSkeleton />}>
                <SampleDetails sample={data} onOpen={onOpen} />
              </Suspense>
            </Otherwise>
          </SearchedText>
        )}
      </QueryView>
    </DockedPanel>
  )
}

function hasEnded(sample: ReadSample | undefined): boolean {
  return sample?.status === 'scored' || sample?.status === 'failed'
}

function NotLoaded() {
  return (
    <p role="alert" className="px-5 py-4 text-bad">
      This part of the page could not be loaded. Reload the page.
    </p>
  )
}

function PanelSkeleton() {
  return (
    <div role="status" aria-label="Loading" className="breathing px-5 py-4">
      <Skeleton width={110} height={10} />
      <Skeleton width={80} height={24} className="my-3" />
      {[92, 99, 76, 0, 88, 98, 96, 60].map((percent) => (
        <span key={percent} className="block py-1" style={{ width: `${percent}%` }}>
          <Skeleton height={11} />
        </span>
      ))}
    </div>
  )
}
