'use client'

import type { ReactNode } from 'react'
import { QueryView, type ViewedQuery } from '../ui/query-view.tsx'

/** The content of a sheet that depends on the number of matching samples. */
export function MatchCount<T>({
  query,
  children,
}: {
  query: ViewedQuery<T>
  children: (data: T) => ReactNode
}) {
  return (
    <QueryView query={query} compact skeleton={<p className="num text-ink-2">Counting matches…</p>}>
      {children}
    </QueryView>
  )
}
