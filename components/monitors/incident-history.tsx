'use client'

import { useInfiniteQuery } from '@tanstack/react-query'
import { History } from 'lucide-react'
import { FLEET_MONITORS, MONITORS, type MonitoredRunDto } from '../../server/contract/monitors.ts'
import { pagesOptions } from '../api/pages.ts'
import { useTRPC, useTRPCClient } from '../api/trpc.ts'
import { Empty } from '../ui/empty.tsx'
import { Select } from '../ui/field.tsx'
import { QueryView } from '../ui/query-view.tsx'
import { ShowMore } from '../ui/show-more.tsx'
import { TableSkeleton } from '../ui/skeleton.tsx'
import { IncidentTable } from './incident-table.tsx'
import { monitorLabel } from './monitor-words.ts'
import type { MonitorsUrl } from './monitors-url.ts'

const PAGE = 50

/** All incidents, newest first, in pages. */
export function IncidentHistory({
  url,
  onChange,
  runs,
}: {
  url: MonitorsUrl
  onChange(change: Partial<MonitorsUrl>): void
  runs: readonly MonitoredRunDto[]
}) {
  const trpc = useTRPC()
  const client = useTRPCClient()
  const input = {
    limit: PAGE,
    ...(url.run === null ? {} : { run: url.run }),
    ...(url.monitor === null ? {} : { monitor: url.monitor }),
  }
  const history = useInfiniteQuery(
    pagesOptions({
      queryKey: trpc.monitors.history.infiniteQueryKey(input),
      read: (cursor, signal) => client.monitors.history.query({ ...input, cursor }, { signal }),
      topics: ['monitors'],
    }),
  )
  const names = [...new Set([...(url.run === null ? [] : [url.run]), ...runs.map((r) => r.run)])]
  return (
    <>
      <div className="flex flex-wrap gap-2 border-b px-5 py-2">
        <div className="w-56 max-w-full">
          <Select
            label="Run"
            hideLabel
            value={url.run ?? ''}
            onChange={(event) => onChange({ run: event.target.value || null })}
          >
            <option value="">All runs</option>
            {names.map((name) => (
              <option key={name}>{name}</option>
            ))}
          </Select>
        </div>
        <div className="w-48 max-w-full">
          <Select
            label="Monitor"
            hideLabel
            value={url.monitor ?? ''}
            onChange={(event) =>
              onChange({
                monitor:
                  [...MONITORS, ...FLEET_MONITORS].find((one) => one === event.target.value) ??
                  null,
              })
            }
          >
            <option value="">All monitors</option>
            {[...MONITORS, ...FLEET_MONITORS].map((monitor) => (
              <option key={monitor} value={monitor}>
                {monitorLabel(monitor)}
              </option>
            ))}
          </Select>
        </div>
      </div>
      <QueryView query={history} skeleton={<TableSkeleton columns={8} rows={8} />}>
        {({ pages }) => {
          const items = pages.flatMap((page) => page.items)
          return items.length === 0 ? (
            <Empty icon={History} title="No incidents">
              {url.run !== null || url.monitor !== null
                ? 'No incident matches this run and monitor.'
                : 'Incidents appear here with their start, worst value and end.'}
            </Empty>
          ) : (
            <>
              <IncidentTable incidents={items} />
              <ShowMore query={history}>Load older incidents</ShowMore>
            </>
          )
        }}
      </QueryView>
    </>
  )
}
