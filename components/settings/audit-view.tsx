'use client'

import { keepPreviousData, useInfiniteQuery } from '@tanstack/react-query'
import { FilterX, ScrollText } from 'lucide-react'
import type { AuditChange, AuditEntryDto } from '../../server/contract/audit.ts'
import { pagesOptions } from '../api/pages.ts'
import { useTRPC, useTRPCClient } from '../api/trpc.ts'
import { dateTime } from '../format/time.ts'
import { useMayRead } from '../session/use-may.ts'
import { Ago } from '../ui/ago.tsx'
import { Button } from '../ui/button.tsx'
import { ColumnHeads } from '../ui/column-heads.tsx'
import { Empty } from '../ui/empty.tsx'
import { QueryView } from '../ui/query-view.tsx'
import { Scroll } from '../ui/scroll.tsx'
import { Select } from '../ui/select.tsx'
import { ShowMore } from '../ui/show-more.tsx'
import { TableSkeleton } from '../ui/skeleton.tsx'
import { AdminsOnly } from './admins-only.tsx'

interface Filter {
  actor: string | null
  action: string | null
}

export function AuditView({ actor, action, onFilter }: Filter & { onFilter(to: Filter): void }) {
  const trpc = useTRPC()
  const client = useTRPCClient()
  const refused = useMayRead('admin')
  const input = {
    ...(actor === null ? {} : { actor }),
    ...(action === null ? {} : { action }),
  }
  const pages = useInfiniteQuery({
    ...pagesOptions({
      queryKey: trpc.audit.list.queryKey(input),
      read: (cursor, signal) => client.audit.list.query({ ...input, cursor }, { signal }),
      topics: [],
    }),
    enabled: refused === null,
    placeholderData: keepPreviousData,
  })
  if (refused !== null) return <AdminsOnly what="The audit log" refused={refused} />
  const first = pages.data?.pages[0]
  const filtered = actor !== null || action !== null
  const all = { actor: null, action: null }
  return (
    <>
      <div className="flex flex-wrap items-center gap-2 border-b px-5 py-2">
        <div className="w-44">
          <Select
            label="Actor"
            hideLabel
            searchable
            value={actor}
            options={[{ value: null, label: 'Any actor' }, ...(first?.actors ?? [])]}
            onChange={(actor) => onFilter({ actor, action })}
          />
        </div>
        <div className="w-52">
          <Select
            label="Action"
            hideLabel
            searchable
            value={action}
            options={[{ value: null, label: 'Any action' }, ...(first?.actions ?? [])]}
            onChange={(action) => onFilter({ actor, action })}
          />
        </div>
        {filtered && (
          <Button small variant="quiet" onClick={() => onFilter(all)}>
            Clear filters
          </Button>
        )}
      </div>
      <QueryView query={pages} skeleton={<TableSkeleton columns={5} rows={8} />}>
        {({ pages: read }) => {
          const entries = read.flatMap((page) => page.items)
          if (entries.length === 0) {
            return filtered ? (
              <Empty
                icon={FilterX}
                title="No matching entries"
                actions={<Button onClick={() => onFilter(all)}>Clear filters</Button>}
              />
            ) : (
              <Empty icon={ScrollText} title="No audit entries">
                The audit log records cancelled batches and changes to servers, keys, limits and
                retention. Each entry names the actor and the values.
              </Empty>
            )
          }
          return (
            <>
              <AuditTable entries={entries} />
              <ShowMore query={pages}>Load older entries</ShowMore>
            </>
          )
        }}
      </QueryView>
    </>
  )
}

function AuditTable({ entries }: { entries: readonly AuditEntryDto[] }) {
  return (
    <Scroll label="Audit log">
      <table className="grid-table">
        <ColumnHeads columns={['Time', 'Actor', 'Action', 'Object', 'Change']} />
        <tbody>
          {entries.map((entry) => (
            <tr key={entry.id} className="align-top [&>td]:py-2">
              <td className="text-ink-2" title={dateTime(Date.parse(entry.at))}>
                <Ago at={entry.at} />
              </td>
              <td>
                {entry.actor}
                <span className="unit">
                  {' '}
                  {entry.actor === 'policy' || entry.actor === 'unknown' ? '' : entry.role}
                </span>
              </td>
              <td className="font-mono text-xs leading-5">{entry.action}</td>
              <td className="max-w-56 truncate font-medium" title={entry.target}>
                {entry.target || <span className="font-normal text-ink-3">–</span>}
              </td>
              <td className="w-full min-w-72 whitespace-normal">
                <Changes changes={entry.changes} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </Scroll>
  )
}

function Changes({ changes }: { changes: readonly AuditChange[] }) {
  if (changes.length === 0) return <span className="text-ink-3">No value change</span>
  return (
    <ul className="space-y-0.5">
      {changes.map(({ field, from, to }) => (
        <li key={field} className="flex flex-wrap gap-x-2 text-xs leading-5">
          <span className="text-ink-3">{field}</span>
          <span className="min-w-0 font-mono break-all">
            {from !== null && <span className="text-ink-3 line-through">{plain(from)}</span>}
            {from !== null && to !== null && ' → '}
            {to === null ? '' : plain(to)}
            {to === null && from !== null && <span className="text-ink-3"> removed</span>}
          </span>
        </li>
      ))}
    </ul>
  )
}

/** A JSON string without its quotes. Other JSON values stay unchanged. */
function plain(json: string): string {
  try {
    const value: unknown = JSON.parse(json)
    return typeof value === 'string' ? value : json
  } catch {
    // A shortened value may be invalid JSON.
    return json
  }
}
