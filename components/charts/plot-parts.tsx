'use client'

import { CartesianGrid } from 'recharts'

/** What every plot has: quiet axes, a grid of lines across, one look of the box under the cursor. */
export const TICK = { fill: 'var(--ink-3)', fontSize: 11 }
export const AXIS = { stroke: 'var(--line-strong)' }
export const GRID = <CartesianGrid vertical={false} stroke="var(--line)" />
export const MARGIN = { top: 8, right: 4, bottom: 0, left: 0 }
export const CURSOR = { fill: 'var(--ink)', fillOpacity: 0.05 }

/** The label of a tick that was prepared. */
export function labelOf(ticks: readonly { at: number; label: string }[]) {
  return (at: number) => ticks.find((tick) => tick.at === at)?.label ?? ''
}

/** What lies under the cursor. */
export function Tip({
  title,
  rows,
}: {
  title: string
  rows: { label: string; value: string; color?: string }[]
}) {
  return (
    <div className="rounded-md border border-line-strong bg-raised px-2.5 py-1.5 text-xs shadow-pop">
      <p className="num font-medium">{title}</p>
      {rows.map((row) => (
        <p key={row.label} className="num flex items-center gap-2 text-ink-2">
          {row.color && (
            <span className="size-2 rounded-[2px]" style={{ background: row.color }} aria-hidden />
          )}
          {row.label}
          <span className="ml-auto pl-4 text-ink">{row.value}</span>
        </p>
      ))}
    </div>
  )
}
