'use client'

import { type ReactNode, useRef } from 'react'
import { FailureView } from './failure-view.tsx'
import { Section } from './section.tsx'

/**
 * What a query gives, once it gives something: the skeleton before, the failure instead, and old data
 * rather than a failure, because the header already says that they are old.
 *
 * A failure stays on the screen while the query is asked again, else failure and skeleton would take turns
 * under the eyes of the reader; and it is shown from the second try on, not after the last.
 */
export function QueryView<T>({
  query,
  skeleton,
  children,
  compact,
  title,
}: {
  query: {
    data: T | undefined
    error: unknown
    failureCount: number
    failureReason: unknown
    refetch(): unknown
  }
  skeleton: ReactNode
  children: (data: T) => ReactNode
  compact?: boolean
  /** Names the part of the page that is missing, where the rest of it stands. */
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
