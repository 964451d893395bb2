'use client'

import { useQuery, useQueryClient } from '@tanstack/react-query'
import { useRef } from 'react'
import type { TimelineDto } from '../../../server/wire/timeline.ts'
import { useTRPCClient } from '../../api/trpc.ts'
import { useLive, useNow } from '../../live/live-provider.tsx'
import { hasHoles, mergeTimeline, type TimelineModel } from './timeline-model.ts'

/** What workers take is not told of by the stream; asked for at this pace while a batch runs. */
const HELD_EVERY_MS = 2_000
/** What was missed is asked for in whole, at most this often. */
const WHOLE_EVERY_MS = 3_000

/** A part of a batch's timeline: read in whole once, then what changed, and in whole again when the batch has ended. */
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
        known !== null && hasHoles(known) && Date.now() - wholeAt.current >= WHOLE_EVERY_MS
      const answer = await read(torn ? null : (known?.cursor ?? null))
      // What ended last may have been written before the answer before and committed after it.
      const last = answer.ended && !answer.full ? await read(null) : answer
      return mergeTimeline(known, last)
    },
    // The model shares what did not change by itself.
    structuralSharing: false,
    refetchInterval: ({ state: { data } }) =>
      data?.ended || state.frozenAt !== null ? false : HELD_EVERY_MS,
    meta: { topics: [`batch:${batchId}`] },
    staleTime: ({ state: { data } }) => (data?.ended ? Number.POSITIVE_INFINITY : 1_000),
  })
  return query
}

/** How far a running batch is, in milliseconds since its acceptance; null once it has ended. */
export function useElapsed(
  model: Pick<TimelineModel, 'ended' | 'atMs'>,
  dataUpdatedAt: number,
): number | null {
  const now = useNow()
  const { state } = useLive()
  if (model.ended) return null
  return model.atMs + Math.max(0, (state.frozenAt ?? now) - dataUpdatedAt)
}
