'use client'

import { type ReactNode, useRef } from 'react'
import { FailureView } from './failure-view.tsx'
import { Section } from './section.tsx'

export interface ViewedQuery<T> {
  data: T | undefined
  error: unknown
  failureCount: number
  failureReason: unknown
  refetch(): unknown
}

/**
 * Shows the skeleton until the query has data or an error, then the data or the error. Stale data is shown instead of
 * an error, because the header already marks it as stale. An error appears after the second failed attempt and stays
 * visible during retries.
 */
export function QueryView<T>({
  query,
  skeleton,
  children,
  compact,
  title,
}: {
  query: ViewedQuery<T>
  skeleton: ReactNode
  children: (data: T) => ReactNode
  compact?: boolean
  title?: string
}) {
  const failure = useRef<unknown>(null)
  if (query.data !== undefined) {
    failure.current = null
    return children(query.data)
  }
  failure.current = query.error ?? (query.failureCount > 1 ? query.failureReason : failure.current)
  if (failure.current === null) return skeleton
  const shown = (
    <FailureView
      error={failure.current}
      onRetry={() => void query.refetch()}
      compact={compact ?? false}
    />
  )
  return title === undefined ? shown : <Section title={title}>{shown}</Section>
}
