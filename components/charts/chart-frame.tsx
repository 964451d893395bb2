'use client'

import { ChartColumn, Download, Table2 } from 'lucide-react'
import { type ReactNode, useState } from 'react'
import { IconButton } from '../ui/button.tsx'
import { ColumnHeads } from '../ui/column-heads.tsx'
import { saveCsv } from '../ui/save-file.ts'
import { Scroll } from '../ui/scroll.tsx'
import { Section } from '../ui/section.tsx'
import { withMarks } from './marks.prepare.ts'
import { useMarks } from './marks.ts'

export interface LegendEntry {
  label: string
  color: string
  value?: string
  /** Whether the swatch is hatched. Failures are hatched as well as red. */
  isHatched?: boolean
  stroke?: 'solid' | 'dashed'
}

interface Table {
  head: string[]
  rows: (string | number)[][]
}

export function ChartFrame({
  title,
  note,
  actions,
  corner,
  legend,
  empty,
  chart,
  table,
  className,
  height = 212,
}: {
  title: string
  note: ReactNode
  actions?: ReactNode
  /** Buttons that stay on the line of the title. */
  corner?: ReactNode
  /** Shown between title and chart, so that the titles of adjacent charts align. */
  legend?: readonly LegendEntry[]
  empty?: string | null | false
  chart: ReactNode
  className?: string
  /** Minimum height of the chart or table, px. A chart grows to the height of its neighbor. */
  height?: number
  table: Table
}) {
  const [asTable, setAsTable] = useState(false)
  const marks = useMarks()
  const twin = asTable ? withMarks(table, marks) : table
  return (
    <Section
      title={title}
      note={note}
      className={className ?? ''}
      actions={!asTable && actions}
      corner={
        <>
          {corner}
          {asTable && (
            <IconButton
              label={`Save ${title} as CSV`}
              onClick={() => saveCsv(title, [twin.head, ...twin.rows])}
            >
              <Download size={15} aria-hidden />
            </IconButton>
          )}
          <IconButton
            label={asTable ? `Show ${title} as a chart` : `Show ${title} as a table`}
            aria-pressed={asTable}
            onClick={() => setAsTable(!asTable)}
          >
            {asTable ? <ChartColumn size={15} aria-hidden /> : <Table2 size={15} aria-hidden />}
          </IconButton>
        </>
      }
    >
      {asTable ? (
        <div className="relative flex-1" style={{ minHeight: height }}>
          <Scroll label={`${title}, table`} className="absolute inset-0 overflow-auto">
            <table className="grid-table">
              <ColumnHeads columns={twin.head.map((cell, i) => (i > 0 ? { end: cell } : cell))} />
              <tbody>
                {twin.rows.map((row) => (
                  <tr key={row.join('|')}>
                    {row.map((cell, i) => (
                      // biome-ignore lint/suspicious/noArrayIndexKey: columns do not move
                      <td key={i} className={`num ${i > 0 ? 'end' : ''}`}>
                        {cell}
                      </td>
                    ))}
                  </tr>
                ))}
              </tbody>
            </table>
          </Scroll>
        </div>
      ) : (
        <div className="relative flex-1" style={{ minHeight: height }}>
          <div className="absolute inset-x-5 top-0 bottom-3 flex flex-col">
            {legend && !empty && <Legend entries={legend} className="mb-1 text-xs text-ink-3" />}
            <div className="min-h-0 flex-1">
              {empty ? (
                <p className="flex h-full items-center justify-center rounded-lg border border-dashed px-5 text-center text-ink-3">
                  {empty}
                </p>
              ) : (
                chart
              )}
            </div>
          </div>
        </div>
      )}
    </Section>
  )
}

export function Legend({
  entries,
  className = '',
}: {
  entries: readonly LegendEntry[]
  className?: string
}) {
  return (
    <ul aria-label="Legend" className={`num flex flex-wrap items-center gap-x-3 ${className}`}>
      {entries.map(({ label, color, value, isHatched, stroke }) => (
        <li key={label} className="flex items-center gap-1.5">
          {stroke ? (
            <svg width={14} height={8} aria-hidden>
              <line
                x2={14}
                y1={4}
                y2={4}
                stroke={color}
                strokeWidth={1.75}
                {...(stroke === 'dashed' && { strokeDasharray: '4 3' })}
              />
            </svg>
          ) : (
            <span
              className={`size-2 rounded-[2px] ${isHatched ? 'hatch' : ''}`}
              style={isHatched ? {} : { background: color }}
              aria-hidden
            />
          )}
          {label}
          {value !== undefined && <span className="unit">{value}</span>}
        </li>
      ))}
    </ul>
  )
}
