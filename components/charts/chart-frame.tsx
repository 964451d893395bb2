'use client'

import { ChartColumn, Download, Table2 } from 'lucide-react'
import { type ReactNode, useState } from 'react'
import { formatCount, plural } from '../format/numbers.ts'
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

type Rows = (string | number)[][]

interface Table {
  head: string[]
  /** A function is called only when the table is shown. */
  rows: Rows | (() => Rows)
  /** Maximum number of rows on the page. The CSV file has all rows. */
  maxShown?: number
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
  const { head, rows, maxShown } = table
  const twin = asTable
    ? withMarks({ head, rows: typeof rows === 'function' ? rows() : rows }, marks)
    : null
  return (
    <Section
      title={title}
      note={note}
      className={className ?? ''}
      actions={!asTable && actions}
      corner={
        <>
          {corner}
          {twin && (
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
      {twin ? (
        <div className="relative flex-1" style={{ minHeight: height }}>
          <Scroll label={`${title}, table`} className="absolute inset-0 overflow-auto">
            <ChartTable {...twin} maxShown={maxShown ?? twin.rows.length} />
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

/** The rows of a chart's table, and how many of them are only in the CSV file. */
export function ChartTable({
  head,
  rows,
  maxShown,
}: {
  head: string[]
  rows: Rows
  maxShown: number
}) {
  return (
    <>
      <table className="grid-table">
        <ColumnHeads columns={head.map((cell, i) => (i > 0 ? { end: cell } : cell))} />
        <tbody>
          {rows.slice(0, maxShown).map((row) => (
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
      {rows.length > maxShown && (
        <p className="px-5 py-3 text-xs text-ink-3">
          The first {formatCount(maxShown)} of {plural(rows.length, 'row')}. The CSV file has all of
          them.
        </p>
      )}
    </>
  )
}

/** The series of a chart, in the order in which they are drawn. */
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
