'use client'

import { Button } from './button.tsx'

interface PagedQuery {
  hasNextPage: boolean
  isFetchingNextPage: boolean
  fetchNextPage(): Promise<unknown>
}

export function ShowMore({
  query,
  children = 'Show more',
}: {
  query: PagedQuery
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
