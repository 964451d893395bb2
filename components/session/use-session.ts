'use client'

import { useQuery } from '@tanstack/react-query'
import { useTRPC } from '../api/trpc.ts'

/** Nothing on a page is followed before it is known who looks: asked again after so long where no answer came, ms. */
const AGAIN_MS = 5_000

/** Who is looking; asked once a page load. */
export function useSession() {
  const trpc = useTRPC()
  return useQuery(
    trpc.session.get.queryOptions(undefined, {
      staleTime: Number.POSITIVE_INFINITY,
      refetchInterval: ({ state }) => (state.data === undefined && state.error ? AGAIN_MS : false),
    }),
  )
}
