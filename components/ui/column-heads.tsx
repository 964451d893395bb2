import type { ReactNode } from 'react'

/**
 * The head of a table column. `end` is right-aligned, for numbers. `hidden` is for screen readers only, for columns of
 * buttons and bars.
 */
export type ColumnHead =
  | string
  | ({ className?: string; title?: string; sorted?: 'ascending' | 'descending' | undefined } & (
      | { start: ReactNode }
      | { end: ReactNode }
      | { hidden: string }
    ))

export function ColumnHeads({ columns }: { columns: readonly ColumnHead[] }) {
  return (
    <thead>
      <tr>
        {columns.map((column, at) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: columns do not move
          <Head key={at} column={typeof column === 'string' ? { start: column } : column} />
        ))}
      </tr>
    </thead>
  )
}

function Head({ column }: { column: Exclude<ColumnHead, string> }) {
  const look = [...('end' in column ? ['end'] : []), column.className ?? ''].join(' ').trim()
  return (
    <th scope="col" className={look || undefined} title={column.title} aria-sort={column.sorted}>
      {'hidden' in column ? (
        <span className="sr-only">{column.hidden}</span>
      ) : 'end' in column ? (
        column.end
      ) : (
        column.start
      )}
    </th>
  )
}
