'use client'

import { ArrowDown, ArrowDownWideNarrow, ArrowUp, CircleX, Layers } from 'lucide-react'
import { useRouter } from 'next/navigation'
import { Fragment } from 'react'
import { MAX_COMPARED_RUNS } from '../../server/contract/compare.ts'
import type { RunTableRowDto } from '../../server/contract/run-table.ts'
import { plural } from '../format/numbers.ts'
import { ActionMenu } from '../ui/action-menu.tsx'
import { ColumnHeads } from '../ui/column-heads.tsx'
import { Scroll } from '../ui/scroll.tsx'
import { firstOrder, type RunColumn, runColumns } from './run-columns.tsx'
import { runSamplesHref } from './run-url.ts'
import type { RunsUrl } from './runs-url.ts'

export function RunsTable({
  runs,
  url,
  onChange,
}: {
  runs: readonly RunTableRowDto[]
  url: RunsUrl
  onChange(change: Partial<RunsUrl>): void
}) {
  const columns = runColumns(url.columns)
  const isFull = url.chosen.length >= MAX_COMPARED_RUNS
  const onTag = (tag: string) => {
    if (!url.tags.includes(tag)) onChange({ tags: [...url.tags, tag] })
  }
  return (
    <Scroll label="Runs">
      <table className="grid-table">
        <ColumnHeads
          columns={[
            { hidden: 'Compare', className: 'w-8 !pr-0' },
            ...columns.map((column) => headOf(column, url, onChange)),
            { hidden: 'Actions' },
          ]}
        />
        <tbody>
          {runs.map((run, at) => (
            <Fragment key={`${run.tag} ${run.name}`}>
              {url.byTag && (at === 0 || run.tag !== runs[at - 1]?.tag) && (
                <tr data-tag={run.tag ?? ''}>
                  <th
                    scope="rowgroup"
                    colSpan={columns.length + 2}
                    className="sticky! left-0 bg-sunken! text-ink-2!"
                  >
                    <span className="font-medium text-ink">{run.tag ?? 'No tags'}</span>
                    <span className="num ml-3">{plural(run.tagRuns ?? 0, 'run')}</span>
                  </th>
                </tr>
              )}
              <tr data-run={run.name}>
                <td className="w-8 !pr-0">
                  <input
                    type="checkbox"
                    aria-label={`Compare ${run.name}`}
                    checked={url.chosen.includes(run.name)}
                    disabled={isFull && !url.chosen.includes(run.name)}
                    onChange={(event) =>
                      onChange({
                        chosen: event.target.checked
                          ? [...url.chosen, run.name]
                          : url.chosen.filter((name) => name !== run.name),
                      })
                    }
                    className="block size-3.5 accent-(--accent-fill)"
                  />
                </td>
                {columns.map((column) => (
                  <td
                    key={column.label}
                    className={`${column.start ? '' : 'end'} ${column.className ?? ''}`}
                  >
                    {column.cell(run, onTag)}
                  </td>
                ))}
                <td className="end w-8 !pl-0">
                  <RunMenu run={run} />
                </td>
              </tr>
            </Fragment>
          ))}
        </tbody>
      </table>
    </Scroll>
  )
}

function headOf(
  { label, title, sort, start, className }: RunColumn,
  url: RunsUrl,
  onChange: (change: Partial<RunsUrl>) => void,
) {
  const isSorted = sort !== undefined && url.sort === sort
  const Arrow = url.order === 'asc' ? ArrowUp : ArrowDown
  const head =
    sort === undefined ? (
      label
    ) : (
      <button
        type="button"
        onClick={() =>
          onChange(
            isSorted
              ? { order: url.order === 'asc' ? 'desc' : 'asc' }
              : { sort, order: firstOrder(sort) },
          )
        }
        className={`inline-flex max-w-48 items-center gap-1 hover:text-ink ${isSorted ? 'font-medium text-ink' : ''}`}
      >
        <span className="truncate">{label}</span>
        {isSorted && <Arrow size={12} aria-hidden className="shrink-0" />}
      </button>
    )
  return {
    ...(start ? { start: head } : { end: head }),
    ...(title === undefined ? {} : { title }),
    ...(className === undefined ? {} : { className }),
    sorted: isSorted ? (url.order === 'asc' ? 'ascending' : 'descending') : undefined,
  } as const
}

function RunMenu({ run }: { run: RunTableRowDto }) {
  const router = useRouter()
  return (
    <ActionMenu
      label={`Actions for ${run.name}`}
      actions={[
        {
          label: 'View lowest-scoring samples',
          icon: <ArrowDownWideNarrow size={14} aria-hidden />,
          onSelect: () => router.push(`${runSamplesHref(run)}&sort=worst`),
        },
        {
          label: 'View failed samples',
          icon: <CircleX size={14} aria-hidden />,
          disabled: run.failed === 0,
          onSelect: () => router.push(runSamplesHref(run, { status: 'failed' })),
        },
        {
          label: 'View batches',
          icon: <Layers size={14} aria-hidden />,
          onSelect: () => router.push(`/batches?run=${encodeURIComponent(run.name)}`),
        },
      ]}
    />
  )
}
