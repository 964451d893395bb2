'use client'

import { formatCount, formatScore } from '../format/numbers.ts'
import { capitalized } from '../format/text.ts'
import type { ReadSample } from './sample-texts.tsx'

const MAX_SHOWN = 64

export function Siblings({
  sample,
  onOpen,
  actions,
}: {
  sample: Pick<ReadSample, 'id' | 'siblings'>
  onOpen(id: string): void
  actions?: React.ReactNode
}) {
  const shown = sample.siblings.slice(0, MAX_SHOWN)
  const rest = sample.siblings.length - shown.length
  if (shown.length < 2) return null
  return (
    <div>
      <div className="mb-1.5 flex items-center justify-between text-xs text-ink-3">
        Group of {formatCount(sample.siblings.length)}
        {actions}
      </div>
      <ul className="flex flex-wrap gap-1">
        {shown.map((sibling) => (
          <li key={sibling.id}>
            <button
              type="button"
              onClick={() => onOpen(sibling.id)}
              aria-current={sibling.id === sample.id || undefined}
              title={`${sibling.id}, ${sibling.status}`}
              className="num flex h-7 items-center gap-1.5 rounded-md border px-2 text-xs hover:bg-hover aria-[current]:border-accent aria-[current]:bg-selected"
            >
              <span className="text-ink-3">#{sibling.index}</span>
              {sibling.status === 'failed' ? (
                <>
                  <span className="hatch size-2.5 rounded-[2px]" aria-hidden />
                  <span className="sr-only">Failed</span>
                </>
              ) : sibling.score === null ? (
                <span className="text-ink-3">{capitalized(sibling.status)}</span>
              ) : (
                formatScore(sibling.score)
              )}
            </button>
          </li>
        ))}
        {rest > 0 && (
          <li className="self-center text-xs text-ink-3">and {formatCount(rest)} more</li>
        )}
      </ul>
    </div>
  )
}
