'use client'

import { CloudOff, TriangleAlert } from 'lucide-react'
import { describeFailure } from '../api/failure.ts'
import { Button } from './button.tsx'
import { CopyText } from './copy-text.tsx'

export function FailureView({
  error,
  onRetry,
  compact,
}: {
  error: unknown
  onRetry?: () => void
  compact?: boolean
}) {
  const failure = describeFailure(error)
  const Icon = failure.reason === 'unreachable' ? CloudOff : TriangleAlert
  return (
    <div
      role="alert"
      className={compact ? 'mx-5 my-2 flex gap-3' : 'mx-auto flex max-w-xl gap-4 px-5 py-14'}
    >
      <Icon size={compact ? 16 : 20} className="mt-0.5 shrink-0 text-bad" aria-hidden />
      <div className="min-w-0">
        <p className={compact ? 'font-medium' : 'text-md font-semibold'}>{failure.title}</p>
        <p className="mt-0.5 break-words text-ink-2">{failure.message}</p>
        {failure.hint && <p className="mt-1.5 break-words text-ink-2">{failure.hint}</p>}
        <p className="mt-3 flex flex-wrap items-center gap-x-4 gap-y-2 text-xs text-ink-3">
          {onRetry && (
            <Button small onClick={onRetry}>
              Try again
            </Button>
          )}
          <span className="font-mono">{failure.reason}</span>
          {failure.requestId && (
            <span className="inline-flex items-center gap-1.5">
              Request ID <CopyText text={failure.requestId} />
            </span>
          )}
        </p>
      </div>
    </div>
  )
}
