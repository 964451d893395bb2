// biome-ignore-all lint/a11y/useSemanticElements: rows are positioned by transform, which table elements do not support
// biome-ignore-all lint/a11y/useFocusableInteractive: cells are read-only, and the button of the row takes the focus
'use client'

import { useVirtualizer } from '@tanstack/react-virtual'
import { type KeyboardEvent, useEffect, useRef, useState } from 'react'
import type { SampleRowDto } from '../../server/contract/pages.ts'
import { KindMarks } from '../batches/batch-cells.tsx'
import { FailureView } from '../ui/failure-view.tsx'
import { Scroll } from '../ui/scroll.tsx'
import { leastTablePx, type SampleColumn, SELECT_PX } from './sample-columns.tsx'
import { COLUMN_PX } from './sample-filters.ts'

const ROW_PX = 34

export function SampleTable({
  rows,
  columns,
  openId,
  onOpen,
  hasMore,
  moreFailure,
  onMore,
  selection,
  onWidth,
}: {
  rows: readonly SampleRowDto[]
  columns: SampleColumn[]
  openId: string | null
  onOpen(id: string): void
  hasMore: boolean
  /** The error of the request for more rows; null if the request has not failed or is being retried. */
  moreFailure: unknown
  onMore(): void
  /** The selected samples and their setters. `all` means that every matching sample is selected. */
  selection: {
    has(id: string): boolean
    all: boolean
    some: boolean
    toggle(id: string, range: boolean): void
    toggleShown(): void
  }
  onWidth(name: string, px: number): void
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
  const mayLoad = hasMore && moreFailure === null
  useEffect(() => {
    if (mayLoad && lastSeen >= rows.length - 20) more.current()
  }, [mayLoad, lastSeen, rows.length])
  const openAt = rows.findIndex((row) => row.id === openId)
  useEffect(() => {
    if (openAt >= 0) virtual.scrollToIndex(openAt, { align: 'auto' })
  }, [openAt, virtual])

  const [drawn, setDrawn] = useState<{ name: string; px: number } | null>(null)
  const tracks = columns.map((column) =>
    drawn?.name === column.name ? `${drawn.px}px` : column.track,
  )
  const template = { gridTemplateColumns: `${SELECT_PX}px ${tracks.join(' ')}` }
  return (
    <Scroll ref={scroller} label="Samples" className="min-h-0 flex-1 overflow-auto">
      <div
        role="table"
        aria-label="Samples"
        aria-rowcount={hasMore ? -1 : rows.length + 1}
        style={{ minWidth: leastTablePx(tracks) }}
        data-state="success"
      >
        <div role="rowgroup" className="sticky top-0 z-10 bg-surface">
          <div
            role="row"
            className="grid h-8 items-center gap-x-4 border-b px-5 text-xs text-ink-3"
            style={template}
          >
            <span role="columnheader">
              <input
                type="checkbox"
                aria-label="Select loaded samples"
                checked={
                  selection.all || (selection.some && rows.every((row) => selection.has(row.id)))
                }
                ref={(box) => {
                  if (box) box.indeterminate = selection.some && !selection.all
                }}
                onChange={() => selection.toggleShown()}
                className={CHECKBOX}
              />
            </span>
            {columns.map((column) => (
              <span
                key={column.name}
                role="columnheader"
                className={`relative flex h-full min-w-0 items-center ${column.end ? 'justify-end' : ''}`}
              >
                <span className="truncate">{column.label}</span>
                <WidthHandle
                  label={column.label}
                  onDraw={(px) => setDrawn(px === null ? null : { name: column.name, px })}
                  onWidth={(px) => {
                    setDrawn(null)
                    onWidth(column.name, px)
                  }}
                />
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
                <span role="cell">
                  <input
                    type="checkbox"
                    aria-label={`Select ${row.id}`}
                    checked={selection.has(row.id)}
                    onClick={(event) => event.stopPropagation()}
                    onChange={(event) =>
                      selection.toggle(row.id, (event.nativeEvent as MouseEvent).shiftKey === true)
                    }
                    className={CHECKBOX}
                  />
                </span>
                {columns.map((column, i) => (
                  <span
                    key={column.name}
                    role="cell"
                    className={`min-w-0 truncate ${column.end ? 'text-right' : ''}`}
                  >
                    {i === 0 ? (
                      <span className="flex items-center gap-1.5">
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
                        <KindMarks of={row} />
                      </span>
                    ) : (
                      column.cell(row)
                    )}
                  </span>
                ))}
              </div>
            )
          })}
        </div>
        {mayLoad && <p className="num px-5 py-3 text-center text-xs text-ink-3">Loading more…</p>}
        {hasMore && moreFailure !== null && (
          <FailureView compact error={moreFailure} onRetry={onMore} />
        )}
      </div>
    </Scroll>
  )
}

function WidthHandle({
  label,
  onDraw,
  onWidth,
}: {
  label: string
  onDraw(px: number | null): void
  onWidth(px: number): void
}) {
  const from = useRef<{ x: number; px: number } | null>(null)
  const [now, setNow] = useState<number>(COLUMN_PX.min)
  const bounded = (px: number) => Math.round(Math.max(COLUMN_PX.min, Math.min(COLUMN_PX.max, px)))
  const widthOf = (handle: HTMLElement) => handle.parentElement?.offsetWidth ?? COLUMN_PX.min
  const onKeyDown = (event: KeyboardEvent<HTMLElement>) => {
    const by = event.key === 'ArrowLeft' ? -16 : event.key === 'ArrowRight' ? 16 : 0
    if (by === 0) return
    event.preventDefault()
    onWidth(bounded(widthOf(event.currentTarget) + by))
  }
  return (
    <span
      role="separator"
      aria-orientation="vertical"
      aria-label={`Width of ${label}`}
      aria-valuemin={COLUMN_PX.min}
      aria-valuemax={COLUMN_PX.max}
      aria-valuenow={now}
      tabIndex={0}
      onFocus={(event) => setNow(bounded(widthOf(event.currentTarget)))}
      onKeyDown={onKeyDown}
      onPointerDown={(event) => {
        from.current = { x: event.clientX, px: widthOf(event.currentTarget) }
        event.currentTarget.setPointerCapture(event.pointerId)
      }}
      onPointerMove={(event) => {
        if (from.current === null) return
        onDraw(bounded(from.current.px + event.clientX - from.current.x))
      }}
      onPointerUp={(event) => {
        if (from.current === null) return
        const px = bounded(from.current.px + event.clientX - from.current.x)
        const moved = event.clientX !== from.current.x
        from.current = null
        if (moved) onWidth(px)
        else onDraw(null)
      }}
      className="absolute inset-y-1 -right-2.5 w-2 cursor-col-resize touch-none rounded-sm hover:bg-line-strong focus-visible:bg-line-strong"
    />
  )
}

const CHECKBOX = 'block size-3.5 accent-(--accent-fill)'
