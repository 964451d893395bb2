'use client'

import { useQuery } from '@tanstack/react-query'
import { useTRPC } from '../api/trpc.ts'

/** Who is looking; asked once a page load. */
export function useSession() {
  const trpc = useTRPC()
  return useQuery(trpc.session.get.queryOptions(undefined, { staleTime: Number.POSITIVE_INFINITY }))
}
