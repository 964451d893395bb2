'use client'

import { useQuery, useQueryClient } from '@tanstack/react-query'
import { useRef } from 'react'
import type { TimelineDto } from '../../../server/contract/timeline.ts'
import { useTRPCClient } from '../../api/trpc.ts'
import { useLive, useNow } from '../../live/live-provider.tsx'
import { hasHoles, mergeTimeline, type TimelineModel } from './timeline-model.ts'

/** Polling interval of a running batch, ms. It is polled, because live events do not report claims. */
const CLAIMS_POLL_MS = 2_000
/** The minimum interval between full reads after a missed update. */
const MIN_FULL_READ_GAP_MS = 3_000

/** Reads one page of a batch's timeline: in full at first, then only changes, and in full again at the batch's end. */
export function useTimeline(batchId: string, part: number) {
  const client = useTRPCClient()
  const queryClient = useQueryClient()
  const { state } = useLive()
  const wholeAt = useRef(0)
  const queryKey = ['batch-timeline', batchId, part]
  const query = useQuery({
    queryKey,
    queryFn: async ({ signal }): Promise<TimelineModel> => {
      const known = queryClient.getQueryData<TimelineModel>(queryKey) ?? null
      const read = (after: string | null): Promise<TimelineDto> => {
        if (after === null) wholeAt.current = Date.now()
        return client.batches.timeline.query({ batchId, part, after }, { signal })
      }
      const torn =
        known !== null && hasHoles(known) && Date.now() - wholeAt.current >= MIN_FULL_READ_GAP_MS
      const answer = await read(torn ? null : (known?.cursor ?? null))
      // A result may be dated before an earlier response but committed after it. A final full read finds such results.
      const last = answer.ended && !answer.full ? await read(null) : answer
      return mergeTimeline(known, last)
    },
    // `mergeTimeline` already reuses the objects of unchanged groups.
    structuralSharing: false,
    refetchInterval: ({ state: { data } }) =>
      data?.ended || state.frozenAt !== null ? false : CLAIMS_POLL_MS,
    meta: { topics: [`batch:${batchId}`] },
    staleTime: ({ state: { data } }) => (data?.ended ? Number.POSITIVE_INFINITY : 1_000),
  })
  return query
}

/** The age of a running batch since acceptance, ms; null once it has ended. */
export function useElapsed(
  model: Pick<TimelineModel, 'ended' | 'atMs'>,
  dataUpdatedAt: number,
): number | null {
  const now = useNow()
  const { state } = useLive()
  if (model.ended) return null
  return model.atMs + Math.max(0, (state.frozenAt ?? now) - dataUpdatedAt)
}
