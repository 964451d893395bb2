'use client'

import { useEffect, useState } from 'react'
import { formatCount } from '../../format/numbers.ts'
import { MAX_MINI_BATCHES } from './draw-timeline.ts'

/** An input for the groups per mini-batch; 0 draws none. */
export function ChunkField({
  chunk,
  groups,
  onChange,
}: {
  chunk: number
  groups: number
  onChange(chunk: number): void
}) {
  const [text, setText] = useState(String(chunk))
  useEffect(() => setText(String(chunk)), [chunk])
  const count = chunk > 0 ? Math.ceil(groups / chunk) : 0
  return (
    <label className="num flex items-center gap-2 text-xs text-ink-2">
      Mini-batch
      <input
        inputMode="numeric"
        aria-label="Groups per mini-batch, 0 for none"
        value={text}
        onChange={(event) => {
          setText(event.target.value)
          if (/^\d{1,6}$/.test(event.target.value)) onChange(Number(event.target.value))
        }}
        onBlur={() => setText(String(chunk))}
        className="h-7 w-14 rounded-md border border-line-strong bg-surface px-2 text-right text-ink hover:border-ink-3"
      />
      groups
      <span className="text-ink-3">
        {count > 0 ? `· ${formatCount(count)} total` : '· none drawn'}
        {count > MAX_MINI_BATCHES && ', too many to draw'}
      </span>
    </label>
  )
}
