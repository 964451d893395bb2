'use client'

import { useInfiniteQuery, useQuery } from '@tanstack/react-query'
import { BellRing, CircleCheck, History } from 'lucide-react'
import { FLEET_MONITORS, MONITORS, type MonitorsDto } from '../../server/contract/monitors.ts'
import { pagesOptions } from '../api/pages.ts'
import { useTRPC, useTRPCClient } from '../api/trpc.ts'
import { plural } from '../format/numbers.ts'
import { PageHeader } from '../shell/page-header.tsx'
import { PageLink } from '../shell/page-link.tsx'
import { buttonClass } from '../ui/button.tsx'
import { Empty } from '../ui/empty.tsx'
import { Segmented } from '../ui/field.tsx'
import { QueryView } from '../ui/query-view.tsx'
import { Section } from '../ui/section.tsx'
import { Select } from '../ui/select.tsx'
import { ShowMore } from '../ui/show-more.tsx'
import { TableSkeleton } from '../ui/skeleton.tsx'
import { useUrl } from '../url/use-url.ts'
import { AlertSettings } from './alert-settings.tsx'
import { IncidentTable } from './incident-table.tsx'
import { monitorLabel } from './monitor-words.ts'
import { type MonitorsUrl, type MonitorTab, monitorsUrl } from './monitors-url.ts'
import { RunMatrix } from './run-matrix.tsx'
import { RunReadings } from './run-readings.tsx'

const TABS: { value: MonitorTab; label: string }[] = [
  { value: 'now', label: 'Current' },
  { value: 'history', label: 'History' },
  { value: 'alerts', label: 'Alerts' },
]

const ABOUT: Record<MonitorTab, string> = {
  now: 'Monitors check each batch once, after it has ended.',
  history: 'Incidents with their start and end.',
  alerts: 'Webhooks that receive alerts.',
}

export function MonitorsPage() {
  const trpc = useTRPC()
  const [url, setUrl] = useUrl(monitorsUrl)
  const monitors = useQuery(
    trpc.monitors.list.queryOptions(undefined, { meta: { topics: ['monitors'] } }),
  )
  return (
    <>
      <PageHeader title="Monitors" state={monitors.data && <State data={monitors.data} />} />
      <div className="flex min-h-11 flex-wrap items-center gap-x-4 gap-y-1 border-b px-5 py-2">
        <Segmented
          label="View"
          value={url.tab}
          options={TABS}
          onChange={(tab) => setUrl({ tab }, 'push')}
        />
        <p className="text-xs text-ink-3">{ABOUT[url.tab]}</p>
      </div>
      {url.tab === 'alerts' ? (
        <AlertSettings />
      ) : url.tab === 'history' ? (
        <IncidentHistory url={url} onChange={setUrl} />
      ) : (
        <QueryView query={monitors} skeleton={<TableSkeleton columns={6} rows={8} />}>
          {(data) => <Now data={data} url={url} onChange={setUrl} />}
        </QueryView>
      )}
    </>
  )
}

function State({ data }: { data: MonitorsDto }) {
  if (data.runs.length === 0 && data.open.length === 0) return null
  if (data.open.length === 0) {
    return (
      <span className="flex min-w-0 items-center gap-1.5 text-ink-2">
        <CircleCheck size={14} className="shrink-0 text-ok" aria-hidden />
        <span className="truncate">No open incidents</span>
      </span>
    )
  }
  const worst = data.open.some(({ severity }) => severity === 'alerting')
  return (
    <span className={`num truncate ${worst ? 'text-bad' : 'text-warn'}`}>
      {data.hasMoreOpen ? 'More than ' : ''}
      {plural(data.open.length, 'open incident')}
    </span>
  )
}

function Now({
  data,
  url,
  onChange,
}: {
  data: MonitorsDto
  url: MonitorsUrl
  onChange(change: Partial<MonitorsUrl>): void
}) {
  const [newest] = data.runs
  if (newest === undefined && data.open.length === 0) {
    return (
      <Empty
        icon={BellRing}
        title={data.pending > 0 ? 'Checking ended batches' : 'No batches to monitor'}
        actions={
          <PageLink href="/" className={buttonClass('primary')}>
            Submit your first batch
          </PageLink>
        }
      >
        Monitors check every ended batch that has enough samples. They detect variance collapse,
        duplicate responses and failures. No setup is needed.
      </Empty>
    )
  }
  const chosen =
    data.runs.find(({ run, split }) => run === url.run && split === url.split) ??
    (url.run === null ? newest : undefined)
  return (
    <>
      {data.open.length > 0 && (
        <Section
          title="Open incidents"
          note={`${data.hasMoreOpen ? 'Newest ' : ''}${plural(data.open.length, 'incident')}`}
          className="border-b"
        >
          <IncidentTable incidents={data.open} />
        </Section>
      )}
      {data.runs.length > 0 && (
        <RunMatrix
          runs={data.runs}
          hasMore={data.hasMoreRuns}
          pending={data.pending}
          chosen={chosen ?? null}
          onChoose={({ run, split }) => onChange({ run, split })}
        />
      )}
      {(chosen ?? url.run) && (
        <RunReadings run={chosen?.run ?? (url.run as string)} split={chosen?.split ?? url.split} />
      )}
    </>
  )
}

const PAGE = 50

function IncidentHistory({
  url,
  onChange,
}: {
  url: MonitorsUrl
  onChange(change: Partial<MonitorsUrl>): void
}) {
  const trpc = useTRPC()
  const runs = useQuery(trpc.runs.list.queryOptions(undefined, { meta: { topics: ['batches'] } }))
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
  return (
    <>
      <div className="flex flex-wrap gap-2 border-b px-5 py-2">
        <div className="w-56 max-w-full">
          <Select
            label="Run"
            hideLabel
            searchable
            value={url.run}
            options={[
              { value: null, label: 'All runs' },
              ...(runs.data ?? []).map(({ name }) => name),
            ]}
            onChange={(run) => onChange({ run })}
          />
        </div>
        <div className="w-48 max-w-full">
          <Select
            label="Monitor"
            hideLabel
            value={url.monitor}
            options={[
              { value: null, label: 'All monitors' },
              ...[...MONITORS, ...FLEET_MONITORS].map((value) => ({
                value,
                label: monitorLabel(value),
              })),
            ]}
            onChange={(monitor) => onChange({ monitor })}
          />
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
