import type { ReactNode } from 'react'
import { FailureView } from './failure-view.tsx'

/**
 * What a query gives, once it gives something: the skeleton before, the failure instead, and old data
 * rather than a failure, because the header already says that they are old.
 */
export function QueryView<T>({
  query,
  skeleton,
  children,
  compact,
}: {
  query: { data: T | undefined; error: unknown; refetch(): unknown }
  skeleton: ReactNode
  children: (data: T) => ReactNode
  compact?: boolean
}) {
  if (query.data !== undefined) return children(query.data)
  if (query.error) {
    return (
      <FailureView
        error={query.error}
        onRetry={() => void query.refetch()}
        compact={compact ?? false}
      />
    )
  }
  return skeleton
}
