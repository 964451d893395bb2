'use client'

import { ChartColumn, Table2 } from 'lucide-react'
import { type ReactNode, useState } from 'react'
import { IconButton } from '../ui/button.tsx'
import { ColumnHeads } from '../ui/column-heads.tsx'
import { Scroll } from '../ui/scroll.tsx'
import { Section } from '../ui/section.tsx'
import { withMarks } from './marks.prepare.ts'
import { useMarks } from './marks.ts'

/** A chart with its title, n and unit, controls, and a table view of the same numbers. */
export function ChartFrame({
  title,
  note,
  actions,
  chart,
  table,
  className,
  height = 212,
}: {
  title: string
  /** n and unit. */
  note: ReactNode
  actions?: ReactNode
  chart: ReactNode
  className?: string
  /** The height of the chart or table in pixels; it grows with its neighbor. */
  height?: number
  table: { head: string[]; rows: (string | number)[][] }
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
        <IconButton
          label={asTable ? `Show ${title} as a chart` : `Show ${title} as a table`}
          aria-pressed={asTable}
          onClick={() => setAsTable(!asTable)}
        >
          {asTable ? <ChartColumn size={15} aria-hidden /> : <Table2 size={15} aria-hidden />}
        </IconButton>
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
          <div className="absolute inset-x-5 top-0 bottom-3">{chart}</div>
        </div>
      )}
    </Section>
  )
}
