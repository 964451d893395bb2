'use client'

import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { MAX_HISTORY_S } from '../../server/contract/fleet-history.ts'
import { useTRPC } from '../api/trpc.ts'
import { useLive } from '../live/live-provider.tsx'
import type { HistoryRange } from './history-range.ts'

const REFRESH_MS = 10_000

export function useFleetHistory({ last, part }: HistoryRange) {
  const trpc = useTRPC()
  const { state } = useLive()
  const input =
    part === null
      ? { seconds: last }
      : { seconds: Math.min(MAX_HISTORY_S, part.to - part.from), until: part.to }
  return useQuery(
    trpc.fleet.history.queryOptions(input, {
      meta: { topics: part === null ? ['servers', 'workers'] : [], minGapMs: 2_000 },
      refetchInterval: () =>
        state.frozenAt !== null || (part !== null && part.to * 1_000 < Date.now())
          ? false
          : REFRESH_MS,
      placeholderData: keepPreviousData,
    }),
  )
}
