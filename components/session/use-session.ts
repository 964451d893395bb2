'use client'

import { useQuery } from '@tanstack/react-query'
import { useTRPC } from '../api/trpc.ts'

const AGAIN_MS = 5_000

/** The current session. It is fetched once per page load. */
export function useSession() {
  const trpc = useTRPC()
  return useQuery(
    trpc.session.get.queryOptions(undefined, {
      staleTime: Number.POSITIVE_INFINITY,
      refetchInterval: ({ state }) => (state.data === undefined && state.error ? AGAIN_MS : false),
    }),
  )
}
