'use client'

import { Button } from './button.tsx'

/** What a list that is read page by page says of itself: the part of an infinite query that is needed here. */
export interface PagedQuery {
  hasNextPage: boolean
  isFetchingNextPage: boolean
  fetchNextPage(): Promise<unknown>
}

/** The next page of a list on request, under its rows; nothing once all are there. */
export function ShowMore({
  query,
  children = 'Show more',
}: {
  query: PagedQuery
  /** What comes next, where it has a better name. */
  children?: string
}) {
  if (!query.hasNextPage) return null
  return (
    <div className="px-5 py-3">
      <Button small busy={query.isFetchingNextPage} onClick={() => void query.fetchNextPage()}>
        {children}
      </Button>
    </div>
  )
}
