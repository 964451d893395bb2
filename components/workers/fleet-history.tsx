'use client'

import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { type ReactNode, useMemo, useState } from 'react'
import {
  type FleetHistoryDto,
  HISTORY_RANGES_S,
  type QuantilesDto,
} from '../../server/contract/fleet-history.ts'
import { useTRPC } from '../api/trpc.ts'
import { ChartFrame } from '../charts/chart-frame.tsx'
import {
  endedOf,
  type HistoryData,
  prepareDurations,
  prepareFailures,
  prepareLines,
  prepareRates,
} from '../charts/history.prepare.ts'
import { type HueKind, hueOf } from '../charts/hue.ts'
import { lazyPlot } from '../charts/lazy-plot.tsx'
import { timeLabel } from '../charts/ticks.ts'
import { durationText, formatCount, formatRate, formatRatio } from '../format/numbers.ts'
import { useLive } from '../live/live-provider.tsx'
import { Segmented } from '../ui/field.tsx'
import { QueryView } from '../ui/query-view.tsx'
import { Section } from '../ui/section.tsx'
import { ChartSkeleton } from '../ui/skeleton.tsx'

const StackPlot = lazyPlot(async () => (await import('../charts/fleet-plots.tsx')).StackPlot)
const LinesPlot = lazyPlot(async () => (await import('../charts/fleet-plots.tsx')).LinesPlot)

/** Charts of one time range share their cursor. */
const SYNC = 'fleet-history'
/** Refetch interval: one interval of the shortest range. */
const REFRESH_MS = 10_000
const FRAME = 'border-b md:odd:border-r'

const RANGE_LABEL: Record<(typeof HISTORY_RANGES_S)[number], string> = {
  900: '15 min',
  3600: '1 h',
  21600: '6 h',
  86400: '24 h',
  604800: '7 d',
  2592000: '30 d',
}

/** A whole number of seconds, minutes or hours. */
function intervalText(seconds: number): string {
  if (seconds % 3_600 === 0) return `${seconds / 3_600} h`
  return seconds % 60 === 0 ? `${seconds / 60} min` : `${seconds} s`
}

/** Servers or workers over time, with one range for all charts. */
export function FleetHistory({
  of,
  range,
  onRange,
}: {
  of: 'workers' | 'servers'
  /** Seconds up to now. */
  range: number
  onRange(seconds: number): void
}) {
  const trpc = useTRPC()
  const { state } = useLive()
  const history = useQuery(
    trpc.fleet.history.queryOptions(
      { seconds: range },
      {
        meta: { topics: [of], minGapMs: 2_000 },
        refetchInterval: state.frozenAt === null ? REFRESH_MS : false,
        placeholderData: keepPreviousData,
      },
    ),
  )
  return (
    <Section
      title="History"
      note={history.data && `intervals of ${intervalText(history.data.intervalSeconds)}`}
      className="border-b"
      actions={
        <Segmented
          label="Time range"
          value={String(range)}
          options={HISTORY_RANGES_S.map((seconds) => ({
            ...{ value: String(seconds), label: RANGE_LABEL[seconds] },
          }))}
          onChange={(seconds) => onRange(Number(seconds))}
        />
      }
    >
      <QueryView query={history} skeleton={<ChartSkeleton height={200} />}>
        {(data) => (
          <div className="grid border-t md:grid-cols-2">
            {of === 'workers' ? <WorkerCharts data={data} /> : <ServerCharts data={data} />}
          </div>
        )}
      </QueryView>
    </Section>
  )
}

/** Samples whose results were written, by worker. */
function Throughput({ data }: { data: FleetHistoryDto }) {
  const throughput = useMemo(
    () =>
      prepareRates(
        data,
        data.workers.map((worker) => ({ name: worker.id, counts: endedOf(worker) })),
      ),
    [data],
  )
  return <Stack title="Worker throughput" unit="samples/s" hue="worker" data={throughput} />
}

/** Requests by server. */
function Requests({ data }: { data: FleetHistoryDto }) {
  const requests = useMemo(
    () =>
      prepareRates(
        data,
        data.servers.map(({ name, requests }) => ({ name, counts: requests })),
      ),
    [data],
  )
  return (
    <Stack
      title="Requests by server"
      unit="requests/s"
      hue="server"
      data={requests}
      empty="No request was sent to a server in this range."
    />
  )
}

/** How evenly requests are spread, by pool. */
function Imbalance({ data }: { data: FleetHistoryDto }) {
  const imbalance = useMemo(
    () =>
      prepareLines(
        data,
        data.imbalance.map(({ model, values }) => ({ name: model, values })),
      ),
    [data],
  )
  return (
    <Lines
      title="Imbalance"
      note="largest request share ÷ capacity share in each pool; 1 is even"
      data={imbalance}
      text={formatRatio}
      empty="No request was sent to a server in this range."
    />
  )
}

function WorkerCharts({ data }: { data: FleetHistoryDto }) {
  const load = useMemo(() => {
    const total = (of: 'inFlight' | 'capacity') =>
      Array.from({ length: data.intervals }, (_, at) => {
        const known = data.workers.flatMap((worker) => worker[of][at] ?? [])
        return known.length === 0 ? null : known.reduce((sum, n) => sum + n, 0)
      })
    return prepareLines(data, [
      { name: 'in flight', values: total('inFlight') },
      { name: 'capacity', values: total('capacity') },
    ])
  }, [data])
  const delay = useMemo(
    () =>
      prepareDurations(
        data,
        data.workers.map(({ id, loopP99Ms }) => ({ name: id, values: loopP99Ms })),
      ),
    [data],
  )
  return (
    <>
      <Throughput data={data} />
      <Lines
        title="Load"
        note="samples in flight and capacity of all workers"
        data={load}
        colors={['var(--data-1)', 'var(--ink-3)']}
        text={formatCount}
      />
      <LatencyChart data={data} />
      <Lines
        title="Event-loop delay p99"
        note="highest of each interval, by worker"
        data={delay}
        hue="worker"
        text={durationText}
      />
    </>
  )
}

function ServerCharts({ data }: { data: FleetHistoryDto }) {
  const failures = useMemo(() => prepareFailures(data, data.servers), [data])
  const latency = useMemo(
    () =>
      prepareDurations(
        data,
        data.servers.map(({ name, p95Ms }) => ({ name, values: p95Ms })),
      ),
    [data],
  )
  const total = (of: 'retries' | 'hedges' | 'ejections') =>
    data.servers.reduce((sum, server) => sum + server[of].reduce((a, b) => a + b, 0), 0)
  return (
    <>
      <Requests data={data} />
      <Imbalance data={data} />
      <Stack
        title="Failed requests"
        unit={`per interval, by cause; ${formatCount(total('retries'))} retries, ${formatCount(total('hedges'))} hedges, ${formatCount(total('ejections'))} ejections`}
        hue="reason"
        data={failures}
        text={formatCount}
        empty="No request failed in this range."
      />
      <Lines
        title="Latency p95 by server"
        note="requests that returned a score; within 9 %"
        data={latency}
        hue="server"
        text={durationText}
        empty={
          data.intervalSeconds >= 3_600
            ? 'Shown for ranges of up to 24 h.'
            : 'No request returned a score in this range.'
        }
      />
    </>
  )
}

const KINDS = { queue: 'Queue', router: 'Router', service: 'Service' } as const

/** p50, p95 and p99 of a part of the samples' time. */
function LatencyChart({ data }: { data: FleetHistoryDto }) {
  const [kind, setKind] = useState<keyof typeof KINDS>('service')
  const quantiles = data.latency[kind]
  const prepared = useMemo(() => {
    const of = (q: 'p50' | 'p95' | 'p99') => ({ name: q, values: quantiles.map((at) => at[q]) })
    return prepareDurations(data, [of('p50'), of('p95'), of('p99')])
  }, [data, quantiles])
  return (
    <Lines
      title="Latency"
      note={`n = ${formatCount(quantiles.reduce((sum, { n }: QuantilesDto) => sum + n, 0))}; within 9 %`}
      data={prepared}
      colors={['var(--data-1)', 'var(--data-2)', 'var(--data-4)']}
      text={durationText}
      actions={
        <Segmented
          label="Latency part"
          value={kind}
          options={Object.entries(KINDS).map(([value, label]) => ({
            ...{ value: value as keyof typeof KINDS, label },
          }))}
          onChange={setKind}
        />
      }
    />
  )
}

type ValueText = (value: number | null) => string

interface Shown {
  title: string
  data: HistoryData
  /** The text in place of a chart without values. */
  empty?: string
}

const NOTHING = 'Nothing in this range.'

function timeOf({ rows }: HistoryData): (row: { at: number }) => string {
  const span = (rows.at(-1)?.at ?? 0) - (rows[0]?.at ?? 0)
  return ({ at }) => timeLabel(at, span)
}

function tableOf(data: HistoryData, text: ValueText) {
  const time = timeOf(data)
  return {
    head: ['Time', ...data.names],
    rows: data.rows
      .toReversed()
      .map((row) => [time(row), ...data.names.map((name) => text(row[`of:${name}`] ?? null))]),
  }
}

function Stack({
  title,
  unit,
  data,
  hue,
  text = formatRate,
  empty = NOTHING,
}: Shown & { unit: string; hue: HueKind; text?: ValueText }) {
  const series = data.names.map((name) => ({
    key: `of:${name}`,
    label: name,
    color: name === data.others ? 'var(--ink-3)' : hueOf(hue, name),
  }))
  return (
    <ChartFrame
      className={FRAME}
      title={title}
      note={unit}
      legend={series}
      empty={!data.hasValues && empty}
      chart={
        <StackPlot
          rows={data.rows}
          series={series}
          title={`${title}, ${unit}`}
          timeTicks={data.timeTicks}
          countTicks={data.valueTicks}
          sync={SYNC}
          timeText={timeOf(data)}
          valueText={text}
          isSparse
        />
      }
      table={tableOf(data, text)}
    />
  )
}

function Lines({
  title,
  note,
  data,
  hue = 'source',
  colors,
  text,
  empty = NOTHING,
  actions,
}: Shown & {
  note: string
  hue?: HueKind
  /** Colors of the series in place of their hues. */
  colors?: readonly string[]
  text: ValueText
  actions?: ReactNode
}) {
  const series = data.names.map((name, at) => ({
    ...{ key: `of:${name}` as const, label: name, stroke: 'solid' as const },
    color: colors?.[at] ?? hueOf(hue, name),
  }))
  return (
    <ChartFrame
      className={FRAME}
      title={title}
      note={note}
      actions={actions}
      legend={series}
      empty={!data.hasValues && empty}
      chart={
        <LinesPlot
          data={data}
          series={series}
          title={`${title}, ${note}`}
          sync={SYNC}
          timeText={timeOf(data)}
          valueText={text}
        />
      }
      table={tableOf(data, text)}
    />
  )
}
