import { infiniteQueryOptions, type QueryKey } from '@tanstack/react-query'
import type { Topic } from '../../server/contract/pages.ts'

/** Data older than this are refetched when their page is opened again. The live stream keeps newer data current. */
export const STALE_MS = 4_000

interface Page {
  items: unknown[]
  nextCursor: string | null
}

/**
 * Options for a keyset-paginated list. tRPC's own `infiniteQueryOptions` sends an extra `direction` field, which the
 * service rejects.
 */
export function pagesOptions<P extends Page>({
  queryKey,
  read,
  topics,
}: {
  queryKey: QueryKey
  read(cursor: string | null, signal: AbortSignal): Promise<P>
  topics: readonly Topic[]
}) {
  return infiniteQueryOptions({
    queryKey,
    queryFn: ({ pageParam, signal }) => read(pageParam, signal),
    initialPageParam: null as string | null,
    getNextPageParam: (page: P) => page.nextCursor,
    meta: { topics },
  })
}
