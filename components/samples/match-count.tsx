'use client'

import type { ReactNode } from 'react'
import { QueryView, type ViewedQuery } from '../ui/query-view.tsx'

/**
 * Renders the part of a sheet that needs the number of matching samples, with a placeholder until the number is loaded.
 */
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
