'use client'

import { type InfiniteData, useQueryClient } from '@tanstack/react-query'
import { useTRPC } from '../api/trpc.ts'

/**
 * Lists with more pages than this stop refreshing, because they would refetch hundreds of samples three times a second,
 * and would repeat the search that found them.
 */
export const LIVE_PAGES = 3

/** Returns a function that refetches the queries that contain annotations. */
export function useAnnotationRefresh(): () => Promise<unknown> {
  const trpc = useTRPC()
  const queryClient = useQueryClient()
  return () =>
    Promise.all([
      queryClient.invalidateQueries({ queryKey: trpc.samples.get.queryKey() }),
      queryClient.invalidateQueries({
        queryKey: trpc.samples.list.infiniteQueryKey(),
        predicate: ({ state }) =>
          ((state.data as InfiniteData<unknown> | undefined)?.pages.length ?? 0) <= LIVE_PAGES,
      }),
      queryClient.invalidateQueries({ queryKey: trpc.annotations.labels.queryKey() }),
    ])
}
