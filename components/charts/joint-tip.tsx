'use client'

import { formatCount, formatPercent, quantityText } from '../format/numbers.ts'
import type { JointCell } from './joint.prepare.ts'

/** What a cell of the joint distribution holds, beside the pointer. */
export function JointTip({
  at,
  cell,
  n,
}: {
  at: { x: number; y: number }
  cell: JointCell
  n: number
}) {
  const rows = [
    ['first', cell.first],
    ['second', cell.second],
    ['samples', `${formatCount(cell.samples)}, ${quantityText(formatPercent(cell.samples / n))}`],
  ] as const
  return (
    <div
      className="pointer-events-none absolute z-10 rounded-md border border-line-strong bg-raised px-2.5 py-1.5 text-xs whitespace-nowrap shadow-pop"
      style={{
        top: `${at.y * 100}%`,
        ...(at.x > 0.5
          ? { right: `${(1 - at.x) * 100}%`, marginRight: 12 }
          : { left: `${at.x * 100}%`, marginLeft: 12 }),
      }}
    >
      {rows.map(([label, value]) => (
        <p key={label} className="num flex gap-3 text-ink-2">
          {label}
          <span className="ml-auto text-ink">{value}</span>
        </p>
      ))}
    </div>
  )
}
