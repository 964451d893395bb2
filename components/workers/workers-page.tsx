'use client'

import { useQuery } from '@tanstack/react-query'
import { Cpu } from 'lucide-react'
import { type ReactNode, useEffect, useRef } from 'react'
import type { WorkerDto } from '../../server/contract/pages.ts'
import { MAX_LISTED_WORKERS } from '../../server/contract/worker-stats.ts'
import { useTRPC } from '../api/trpc.ts'
import { Sparkline } from '../charts/sparkline.tsx'
import {
  formatBytes,
  formatCount,
  formatDuration,
  formatRate,
  newestText,
  plural,
} from '../format/numbers.ts'
import { capitalized } from '../format/text.ts'
import { ageText } from '../format/time.ts'
import { useNow } from '../live/live-provider.tsx'
import { PageHeader } from '../shell/page-header.tsx'
import { Ago } from '../ui/ago.tsx'
import { ColumnHeads } from '../ui/column-heads.tsx'
import { CopyButton, CopyText } from '../ui/copy-text.tsx'
import { Empty } from '../ui/empty.tsx'
import { Figure, FigureStrip, FigureStripSkeleton } from '../ui/figure-strip.tsx'
import { FilterLine, fitsFilter, needsFilter } from '../ui/filter-field.tsx'
import { Quantity } from '../ui/quantity.tsx'
import { QueryView } from '../ui/query-view.tsx'
import { Scroll } from '../ui/scroll.tsx'
import { Section } from '../ui/section.tsx'
import { TableSkeleton } from '../ui/skeleton.tsx'
import { WorkerStateView } from '../ui/status.tsx'
import { useUrl } from '../url/use-url.ts'
import { FleetHistory } from './fleet-history.tsx'
import type { HistoryRange } from './history-range.ts'
import { workersView } from './worker-name.tsx'

export function WorkersPage() {
  const trpc = useTRPC()
  const [{ worker, named, range }, setUrl] = useUrl(workersView)
  const workers = useQuery(
    trpc.workers.list.queryOptions(undefined, { meta: { topics: ['workers'] } }),
  )
  return (
    <>
      <PageHeader title="Workers" />
      <QueryView
        query={workers}
        skeleton={
          <>
            <FigureStripSkeleton />
            <TableSkeleton columns={9} rows={4} />
          </>
        }
      >
        {(data) => (
          <WorkersBody
            workers={data}
            marked={worker}
            named={named}
            onNamed={(next) => setUrl({ named: next })}
            range={range}
            onRange={(next, how) => setUrl({ range: next }, how)}
          />
        )}
      </QueryView>
    </>
  )
}

function WorkersBody({
  workers,
  marked,
  named,
  onNamed,
  range,
  onRange,
}: {
  workers: WorkerDto[]
  marked: string | null
  /** Filters the lists. The figures cover all workers. */
  named: string
  onNamed(named: string): void
  range: HistoryRange
  onRange(range: HistoryRange, how: 'push' | 'replace'): void
}) {
  const here = workers.filter((worker) => worker.state !== 'dead')
  const gone = workers.filter((worker) => worker.state === 'dead')
  const fitting = (some: WorkerDto[]) =>
    some.filter((worker) => fitsFilter(named, worker.id, worker.host))
  const [hereShown, goneShown] = [fitting(here), fitting(gone)]
  const history = <FleetHistory of="workers" range={range} onRange={onRange} />
  if (workers.length === 0) {
    return (
      <>
        {history}
        <Empty icon={Cpu} title="No recent workers">
          No worker has run in the last 10 minutes. Workers start with the service unless{' '}
          <code className="font-mono text-xs">REWARDOPS_WORKERS=0</code> is set. Start one on any
          machine that can reach the database:
          <AddWorker />
        </Empty>
      </>
    )
  }
  const sum = (pick: (worker: WorkerDto) => number) =>
    here.reduce((total, worker) => total + pick(worker), 0)
  const worstLoop = Math.max(0, ...here.map((worker) => worker.eventLoopP99Ms))
  const isHereCut = here.length >= MAX_LISTED_WORKERS
  const covered = isHereCut ? `newest ${formatCount(here.length)} workers` : 'all workers'
  const memory = formatBytes(sum((worker) => worker.rssBytes))
  const loop = formatDuration(worstLoop)
  return (
    <>
      <FigureStrip label="All workers">
        <Figure
          label="Workers alive"
          value={`${formatCount(here.length)}${isHereCut ? '+' : ''}`}
          unit={here.length === 1 ? 'worker' : 'workers'}
          detail={hosts(here)}
        />
        <Figure
          label="Throughput"
          value={formatRate(sum((worker) => worker.samplesPerSecond))}
          unit="samples/s"
          detail={capitalized(covered)}
        />
        <Figure
          label="In flight"
          value={formatCount(sum((worker) => worker.inFlight))}
          unit="samples"
          detail="Being scored now"
        />
        <Figure
          label="In use"
          hint="Samples claimed by the workers, and their capacity."
          value={formatCount(sum((worker) => worker.inUse))}
          unit={`of ${formatCount(sum((worker) => worker.capacity))}`}
          detail="Samples claimed"
        />
        <Figure
          label="Event-loop delay p99"
          hint="99th percentile of the event-loop delay of the slowest worker."
          value={loop.value}
          unit={loop.unit}
          detail="Slowest worker"
        />
        <Figure
          label="Memory"
          value={memory.value}
          unit={memory.unit}
          detail={`Resident, ${covered}`}
        />
      </FigureStrip>
      {history}
      {needsFilter(workers.length, named) && (
        <FilterLine
          label="ID or host"
          value={named}
          shown={hereShown.length + goneShown.length}
          total={workers.length}
          onChange={onNamed}
        />
      )}
      <Section title="Live workers" note={newestText(here.length, isHereCut)}>
        {here.length === 0 ? (
          <p className="px-5 pb-5 text-ink-2">
            No worker is alive, so accepted batches are queued. The service restarts its own workers
            automatically.
          </p>
        ) : hereShown.length === 0 ? (
          <p className="px-5 pb-5 text-ink-2">No matching workers.</p>
        ) : (
          <AliveTable workers={hereShown} marked={marked} />
        )}
      </Section>
      {goneShown.length > 0 && (
        <Section
          title="Exited workers"
          note={newestText(gone.length, workers.length >= MAX_LISTED_WORKERS)}
          className="border-t"
        >
          <GoneTable workers={goneShown} marked={marked} />
        </Section>
      )}
      <div className="flex flex-wrap items-center gap-x-4 gap-y-1 border-t px-5 py-4 text-ink-2">
        Start more workers on this or any machine that can reach the database:
        <AddWorker />
      </div>
    </>
  )
}

function AddWorker() {
  const command = 'DATABASE_URL=postgresql://… npm run worker'
  return (
    <span className="inline-flex items-center gap-1">
      <code className="rounded bg-sunken px-1.5 py-0.5 font-mono text-xs">{command}</code>
      <CopyButton text={command} label="Copy" />
    </span>
  )
}

function hosts(workers: readonly WorkerDto[]): string {
  const names = new Set(workers.map((worker) => worker.host))
  return names.size === 1 ? `On ${[...names][0]}` : `On ${plural(names.size, 'host')}`
}

function Row({
  id,
  marked,
  gone,
  children,
}: {
  id: string
  marked: boolean
  gone?: boolean
  children: ReactNode
}) {
  const row = useRef<HTMLTableRowElement>(null)
  useEffect(() => {
    if (marked) row.current?.scrollIntoView({ block: 'nearest' })
  }, [marked])
  return (
    <tr
      ref={row}
      {...(gone ? {} : { 'data-worker': id })}
      aria-current={marked || undefined}
      className={`aria-[current]:bg-selected ${gone ? 'text-ink-2' : ''}`}
    >
      {children}
    </tr>
  )
}

function AliveTable({ workers, marked }: { workers: WorkerDto[]; marked: string | null }) {
  const now = useNow()
  return (
    <Scroll label="Live workers">
      <table className="grid-table">
        <ColumnHeads
          columns={[
            'Worker',
            'State',
            'Samples/s, last 60 s',
            { end: 'In flight' },
            { end: 'In use/capacity' },
            { end: 'Scored' },
            { end: 'Failed' },
            { end: 'Event-loop delay p99' },
            { end: 'Event-loop delay max' },
            { end: 'Memory' },
            'Host',
            { end: 'Uptime' },
            { end: 'Last seen' },
          ]}
        />
        <tbody>
          {workers.map((worker) => (
            <Row key={worker.id} id={worker.id} marked={marked === worker.id}>
              <td>
                <CopyText text={worker.id} className="text-xs" />
              </td>
              <td>
                <WorkerStateView {...worker} />
              </td>
              <td>
                <span className="flex items-center gap-2.5">
                  <span className="num w-12 text-right">{formatRate(worker.samplesPerSecond)}</span>
                  <span className="h-5 w-20 2xl:w-36">
                    <Sparkline
                      readings={worker.samplesPerSecondHistory}
                      label={`Samples per second of ${worker.id}, last 60 s`}
                      height={20}
                    />
                  </span>
                </span>
              </td>
              <td className="num end">{formatCount(worker.inFlight)}</td>
              <td className="num end">
                {formatCount(worker.inUse)}
                <span className="unit">/{formatCount(worker.capacity)}</span>
              </td>
              <td className="num end">{formatCount(worker.scoredTotal)}</td>
              <td className={`num end ${worker.failedTotal > 0 ? '' : 'text-ink-3'}`}>
                {formatCount(worker.failedTotal)}
              </td>
              <td className={`end ${worker.eventLoopP99Ms > 100 ? 'text-warn' : ''}`}>
                <Quantity of={formatDuration(worker.eventLoopP99Ms)} />
              </td>
              <td className="end">
                <Quantity of={formatDuration(worker.eventLoopMaxMs)} />
              </td>
              <td className="end">
                <Quantity of={formatBytes(worker.rssBytes)} />
              </td>
              <td className="text-ink-2">
                {worker.host}
                <span className="unit num"> pid {worker.pid}</span>
              </td>
              <td className="num end text-ink-2">
                {now === 0 ? '' : ageText(now - Date.parse(worker.startedAt))}
              </td>
              <td className="end text-ink-2">
                <Ago at={worker.lastSeenAt} />
              </td>
            </Row>
          ))}
        </tbody>
      </table>
    </Scroll>
  )
}

function GoneTable({ workers, marked }: { workers: WorkerDto[]; marked: string | null }) {
  return (
    <Scroll label="Exited workers">
      <table className="grid-table">
        <ColumnHeads
          columns={[
            'Worker',
            'State',
            'Requeued',
            { end: 'Scored' },
            { end: 'Failed' },
            'Host',
            { end: 'Last seen' },
          ]}
        />
        <tbody>
          {workers.map((worker) => (
            <Row key={worker.id} id={worker.id} gone marked={marked === worker.id}>
              <td>
                <CopyText text={worker.id} className="text-xs" />
              </td>
              <td>
                <WorkerStateView {...worker} />
              </td>
              <td className="num">
                {worker.requeued === 0 ? 'None' : `${plural(worker.requeued, 'sample')}`}
              </td>
              <td className="num end">{formatCount(worker.scoredTotal)}</td>
              <td className="num end">{formatCount(worker.failedTotal)}</td>
              <td>
                {worker.host}
                <span className="unit num"> pid {worker.pid}</span>
              </td>
              <td className="end">
                <Ago at={worker.lastSeenAt} />
              </td>
            </Row>
          ))}
        </tbody>
      </table>
    </Scroll>
  )
}
