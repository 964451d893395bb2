// biome-ignore-all lint/a11y/useSemanticElements: rows are placed by transform, which table elements do not take
// biome-ignore-all lint/a11y/useFocusableInteractive: cells are read, the button of the row is focused
'use client'

import { useVirtualizer } from '@tanstack/react-virtual'
import { type ReactNode, useEffect, useRef } from 'react'
import type { SampleRowDto } from '../../server/wire/pages.ts'
import { Scroll } from '../ui/scroll.tsx'
import type { SampleColumn } from './sample-columns.tsx'

const ROW_PX = 34

/** The rows, only those in sight drawn. A click or Enter opens one. */
export function SampleTable({
  rows,
  columns,
  openId,
  onOpen,
  hasMore,
  onMore,
  end,
}: {
  rows: readonly SampleRowDto[]
  columns: SampleColumn[]
  openId: string | null
  onOpen(id: string): void
  hasMore: boolean
  onMore(): void
  /** Below the last row, where no more come by themselves. */
  end?: ReactNode
}) {
  const scroller = useRef<HTMLElement>(null)
  const virtual = useVirtualizer({
    count: rows.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => ROW_PX,
    overscan: 14,
  })
  const items = virtual.getVirtualItems()
  const lastSeen = items.at(-1)?.index ?? 0
  const more = useRef(onMore)
  more.current = onMore
  // Scrolling is an event outside of React: the next page is asked for when its end comes into sight.
  useEffect(() => {
    if (hasMore && lastSeen >= rows.length - 20) more.current()
  }, [hasMore, lastSeen, rows.length])
  // Walking with J and K moves the open row; the table follows it.
  const openAt = rows.findIndex((row) => row.id === openId)
  useEffect(() => {
    if (openAt >= 0) virtual.scrollToIndex(openAt, { align: 'auto' })
  }, [openAt, virtual])

  const template = { gridTemplateColumns: columns.map((column) => column.track).join(' ') }
  const minWidth = columns.reduce((sum, column) => sum + leastPx(column.track) + 16, 24)
  return (
    <Scroll ref={scroller} label="Samples" className="min-h-0 flex-1 overflow-auto">
      <div
        role="table"
        aria-label="Samples"
        aria-rowcount={hasMore ? -1 : rows.length + 1}
        style={{ minWidth }}
        data-state="success"
      >
        <div role="rowgroup" className="sticky top-0 z-10 bg-surface">
          <div
            role="row"
            className="grid h-8 items-center gap-x-4 border-b px-5 text-xs text-ink-3"
            style={template}
          >
            {columns.map((column) => (
              <span
                key={column.name}
                role="columnheader"
                className={`truncate ${column.end ? 'text-right' : ''}`}
              >
                {column.label}
              </span>
            ))}
          </div>
        </div>
        <div role="rowgroup" className="relative" style={{ height: virtual.getTotalSize() }}>
          {items.map((item) => {
            const row = rows[item.index] as SampleRowDto
            const open = row.id === openId
            return (
              <div
                key={row.id}
                role="row"
                aria-rowindex={item.index + 2}
                aria-current={open || undefined}
                data-sample={row.id}
                onClick={() => onOpen(row.id)}
                onKeyDown={(event) => {
                  if (event.key === 'Enter') onOpen(row.id)
                }}
                tabIndex={-1}
                className="num absolute inset-x-0 grid cursor-pointer items-center gap-x-4 border-b px-5 whitespace-nowrap hover:bg-hover aria-[current]:bg-selected"
                style={{ ...template, height: ROW_PX, transform: `translateY(${item.start}px)` }}
              >
                {columns.map((column, i) => (
                  <span
                    key={column.name}
                    role="cell"
                    className={`min-w-0 truncate ${column.end ? 'text-right' : ''}`}
                  >
                    {i === 0 ? (
                      <button
                        type="button"
                        aria-label={`Open sample ${row.id}`}
                        aria-expanded={open}
                        className="rounded hover:underline"
                        onClick={(event) => {
                          event.stopPropagation()
                          onOpen(row.id)
                        }}
                      >
                        {column.cell(row)}
                      </button>
                    ) : (
                      column.cell(row)
                    )}
                  </span>
                ))}
              </div>
            )
          })}
        </div>
        {hasMore && <p className="num px-5 py-3 text-center text-xs text-ink-3">Loading more…</p>}
        {end}
      </div>
    </Scroll>
  )
}

/** The least width of a grid track in pixels: the first number in it. */
function leastPx(track: string): number {
  return Number(/\d+/.exec(track)?.[0] ?? 80)
}
