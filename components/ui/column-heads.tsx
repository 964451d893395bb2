import type { ReactNode } from 'react'

/**
 * A column of a table: its words, or an object that says where they stand. `end` is for numbers, which stand at the right;
 * `hidden` is read and not seen, for columns of buttons and bars.
 */
export type ColumnHead =
  | string
  | ({ className?: string; title?: string } & (
      | { start: ReactNode }
      | { end: ReactNode }
      | { hidden: string }
    ))

/** The head of a table, a cell a column. */
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
    <th scope="col" className={look || undefined} title={column.title}>
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
