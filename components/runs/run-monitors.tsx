'use client'

import { useQuery } from '@tanstack/react-query'
import { SlidersHorizontal } from 'lucide-react'
import { useEffect, useMemo, useState } from 'react'
import {
  MONITOR_DEFINITIONS,
  type MonitorName,
  type RunMonitorsDto,
} from '../../server/contract/monitors.ts'
import { useTRPC } from '../api/trpc.ts'
import { ChartFrame } from '../charts/chart-frame.tsx'
import { lazyPlot } from '../charts/lazy-plot.tsx'
import { prepareMonitor } from '../charts/monitor.prepare.ts'
import { formatCount, plural } from '../format/numbers.ts'
import { capitalized } from '../format/text.ts'
import { IncidentTable } from '../monitors/incident-table.tsx'
import { MONITOR_LOOK, MonitorStateView } from '../monitors/monitor-state.tsx'
import { readingText, thresholdText } from '../monitors/monitor-words.ts'
import { ThresholdSheet } from '../monitors/threshold-sheet.tsx'
import { PageLink } from '../shell/page-link.tsx'
import { IconButton } from '../ui/button.tsx'
import { QueryView } from '../ui/query-view.tsx'
import { Section } from '../ui/section.tsx'
import { ChartSkeleton } from '../ui/skeleton.tsx'
import { inRange, type StepRange, startsBefore } from './run-url.ts'

const MonitorPlot = lazyPlot(async () => (await import('../charts/run-plots.tsx')).MonitorPlot)

export function RunMonitors({
  run,
  split,
  zoom,
}: {
  run: string
  split: 'train' | 'val'
  zoom: StepRange | null
}) {
  const trpc = useTRPC()
  const newest = useQuery(
    trpc.monitors.run.queryOptions({ run, split }, { meta: { topics: ['monitors'] } }),
  )
  const points = newest.data?.monitors[0]?.points ?? []
  const isBefore = (newest.data?.earlier ?? 0) > 0 && startsBefore(zoom, points)
  const older = useQuery(
    trpc.monitors.run.queryOptions(
      { run, split, ...(zoom && { from: zoom.from, until: zoom.to }) },
      { enabled: isBefore },
    ),
  )
  const monitors = isBefore && older.data !== undefined ? older : newest
  const loaded = monitors.data !== undefined
  useEffect(() => {
    // The target of the anchor does not exist when the page loads, so the page scrolls to it after the data have
    // arrived.
    if (loaded && location.hash.startsWith('#monitor'))
      document.getElementById(location.hash.slice(1))?.scrollIntoView()
  }, [loaded])
  return (
    <Section
      id="monitors"
      className="border-b"
      title="Monitors"
      note="Checked after each batch has ended"
      corner={
        <PageLink href="/monitors" className="text-xs text-ink-2 hover:text-ink hover:underline">
          All monitors
        </PageLink>
      }
    >
      <QueryView query={monitors} skeleton={<ChartSkeleton height={150} />} compact>
        {(data) => <Loaded data={data} zoom={zoom} />}
      </QueryView>
    </Section>
  )
}

function Loaded({ data, zoom }: { data: RunMonitorsDto; zoom: StepRange | null }) {
  const [edited, setEdited] = useState<MonitorName | null>(null)
  const drawn = data.monitors.filter(({ points }) => points.some(({ value }) => value !== null))
  const silent = data.monitors.filter((monitor) => !drawn.includes(monitor))
  return (
    <>
      {drawn.length > 0 && (
        <div className="grid border-t md:grid-cols-2 xl:grid-cols-3">
          {drawn.map((monitor) => (
            <MonitorChart
              key={monitor.setting.monitor}
              monitor={monitor}
              zoom={zoom}
              onEdit={() => setEdited(monitor.setting.monitor)}
            />
          ))}
        </div>
      )}
      <p className="px-5 py-2 text-xs text-ink-3">
        {silent.length > 0 &&
          `No values: ${silent
            .map(({ setting }) => MONITOR_DEFINITIONS[setting.monitor].label.toLowerCase())
            .join(', ')}.`}
        {data.earlier > 0 &&
          ` ${plural(data.earlier, 'earlier batch', 'earlier batches')} omitted.`}
        {data.hasMoreIncidents && ` Newest ${plural(data.incidents.length, 'incident')}.`}
      </p>
      {data.incidents.length > 0 && <IncidentTable incidents={data.incidents} withRun={false} />}
      <ThresholdSheet run={data.run} monitor={edited} onClose={() => setEdited(null)} />
    </>
  )
}

function MonitorChart({
  monitor,
  zoom,
  onEdit,
}: {
  monitor: RunMonitorsDto['monitors'][number]
  zoom: StepRange | null
  onEdit(): void
}) {
  const { setting, state } = monitor
  const points = useMemo(() => inRange(monitor.points, zoom), [monitor.points, zoom])
  const name = setting.monitor
  const { label, measures, countedUnit } = MONITOR_DEFINITIONS[name]
  const data = useMemo(() => prepareMonitor(points, setting), [points, setting])
  const last = data.last
  return (
    <div id={`monitor-${name}`} className="flex scroll-mt-14 border-b md:border-r">
      <ChartFrame
        className="flex-1"
        title={label}
        height={150}
        note={
          <span title={measures} className="inline-flex flex-wrap items-center gap-x-2">
            <MonitorStateView state={state} />
            {last &&
              `${readingText(name, last.value)} at step ${formatCount(last.step)}, n = ${formatCount(last.n)} ${countedUnit}`}
          </span>
        }
        corner={
          <IconButton label={`Edit thresholds of ${label.toLowerCase()}`} onClick={onEdit}>
            <SlidersHorizontal size={14} aria-hidden />
          </IconButton>
        }
        chart={
          <MonitorPlot
            data={data}
            label={label}
            countedUnit={countedUnit}
            text={(value) => readingText(name, value)}
          />
        }
        table={{
          head: ['Step', 'Value', capitalized(countedUnit), 'State', 'Detail'],
          rows: points
            .toReversed()
            .map((point) => [
              formatCount(point.step),
              readingText(name, point.value),
              formatCount(point.n),
              MONITOR_LOOK[point.state].text,
              point.detail ?? '',
            ]),
        }}
      />
      <span className="sr-only">
        Warning {thresholdText(name, setting.warning)}, alerting{' '}
        {thresholdText(name, setting.alerting)}
      </span>
    </div>
  )
}
