import { infiniteQueryOptions, type QueryKey } from '@tanstack/react-query'

/** A keyset page as every list gives it. */
interface Page {
  items: unknown[]
  nextCursor: string | null
}

/**
 * Options of a keyset list. Not tRPC's own `infiniteQueryOptions`: those send a `direction` along, and the
 * service refuses fields it does not know.
 */
export function pagesOptions<P extends Page>({
  queryKey,
  read,
  topics,
}: {
  queryKey: QueryKey
  read(cursor: string | null, signal: AbortSignal): Promise<P>
  topics: readonly string[]
}) {
  return infiniteQueryOptions({
    queryKey,
    queryFn: ({ pageParam, signal }) => read(pageParam, signal),
    initialPageParam: null as string | null,
    getNextPageParam: (page: P) => page.nextCursor,
    meta: { topics },
  })
}
