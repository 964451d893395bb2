'use client'

import { type ReactNode, useMemo, useState } from 'react'
import {
  type FleetHistoryDto,
  MAX_HISTORY_EVENTS,
  type QuantilesDto,
} from '../../server/contract/fleet-history.ts'
import { ChartFrame } from '../charts/chart-frame.tsx'
import {
  type EventKinds,
  type HistoryData,
  omittedText,
  prepareCauses,
  prepareCounts,
  prepareDurations,
  prepareLines,
  sumsOf,
} from '../charts/history.prepare.ts'
import { type HueKind, hueOf } from '../charts/hue.ts'
import { lazyPlot } from '../charts/lazy-plot.tsx'
import { timeLabel } from '../charts/ticks.ts'
import { durationText, formatCount, formatRate, formatRatio, plural } from '../format/numbers.ts'
import { Segmented } from '../ui/field.tsx'

const StackPlot = lazyPlot(async () => (await import('../charts/fleet-plots.tsx')).StackPlot)
const LinesPlot = lazyPlot(async () => (await import('../charts/fleet-plots.tsx')).LinesPlot)

const SYNC = 'fleet-history'
const FRAME = 'border-b md:odd:border-r'

export interface HistoryChart {
  data: FleetHistoryDto
  /** Called with the start times of the first and last selected interval, epoch ms. */
  onRange?(from: number, to: number): void
  className?: string
}

const SERVER_EVENTS: EventKinds = ['ejected', 'state']
const WORKER_EVENTS: EventKinds = ['died']
const ALL_EVENTS: EventKinds = [...SERVER_EVENTS, ...WORKER_EVENTS]

export function intervalText(seconds: number): string {
  if (seconds % 3_600 === 0) return `${seconds / 3_600} h`
  return seconds % 60 === 0 ? `${seconds / 60} min` : `${seconds} s`
}

/** The chart of samples per second. A sample counts when its result is written. */
export function Throughput({ data, ...rest }: HistoryChart) {
  const shown = useMemo(
    () => prepareCounts(data, data.throughput, WORKER_EVENTS, { per: data.intervalSeconds }),
    [data],
  )
  return (
    <Stack
      title="Worker throughput"
      note="samples/s"
      hue="worker"
      data={shown}
      empty="No sample was scored or failed in this range."
      {...rest}
    />
  )
}

const NO_LOAD = 'No worker reported its load in this range.'

export function Load({ data, ...rest }: HistoryChart) {
  const shown = useMemo(
    () =>
      prepareLines(
        data,
        [
          { name: 'In flight', values: data.load.inFlight },
          { name: 'Capacity', values: data.load.capacity },
        ],
        WORKER_EVENTS,
      ),
    [data],
  )
  return (
    <Lines
      title="Load"
      note="Samples in flight and capacity of all workers"
      data={shown}
      colors={['var(--data-1)', 'var(--ink-3)']}
      text={formatCount}
      empty={NO_LOAD}
      {...rest}
    />
  )
}

export function EventLoopDelay({ data, ...rest }: HistoryChart) {
  const { loopP99Ms } = data
  const shown = useMemo(() => prepareDurations(data, data.loopP99Ms.series, WORKER_EVENTS), [data])
  return (
    <Lines
      title="Event-loop delay p99"
      note={`Maximum per interval, by worker${omittedText(loopP99Ms, 'workers')}`}
      data={shown}
      hue="worker"
      text={durationText}
      empty={NO_LOAD}
      {...rest}
    />
  )
}

const NO_REQUESTS = 'No request was sent to a server in this range.'

export function RequestsByServer({ data, ...rest }: HistoryChart) {
  const shown = useMemo(
    () => prepareCounts(data, data.requests, SERVER_EVENTS, { per: data.intervalSeconds }),
    [data],
  )
  return (
    <Stack
      title="Requests by server"
      note="requests/s"
      hue="server"
      data={shown}
      empty={NO_REQUESTS}
      {...rest}
    />
  )
}

export function Imbalance({ data, ...rest }: HistoryChart) {
  const { imbalance } = data
  const shown = useMemo(() => prepareLines(data, data.imbalance.series, SERVER_EVENTS), [data])
  return (
    <Lines
      title="Imbalance"
      note={`Largest request share ÷ capacity share in each pool; 1 is even${omittedText(imbalance, 'pools')}`}
      data={shown}
      text={formatRatio}
      empty={NO_REQUESTS}
      {...rest}
    />
  )
}

export function Retries({ data, ...rest }: HistoryChart) {
  const [by, setBy] = useState<'cause' | 'server'>('cause')
  const { retries, events, intervals, intervalSeconds } = data
  const shown = useMemo(() => {
    const hedges = data.retries.hedges
    const lines = hedges.some((n) => n > 0) ? [{ name: 'Hedges', values: hedges }] : []
    return by === 'cause'
      ? prepareCauses(data, data.retries.byCause, SERVER_EVENTS, lines)
      : prepareCounts(data, data.retries.byServer, SERVER_EVENTS, { lines })
  }, [data, by])
  const total = (values: readonly number[]) => values.reduce((sum, n) => sum + n, 0)
  const retried = total(sumsOf(intervals, Object.values(retries.byCause)))
  const ejections = events.reduce((sum, { kind, n }) => sum + (kind === 'ejected' ? n : 0), 0)
  const count = [
    plural(retried, 'retry', 'retries'),
    plural(total(retries.hedges), 'hedge'),
    `${events.length < MAX_HISTORY_EVENTS ? '' : 'at least '}${plural(ejections, 'ejection')}`,
  ].join(', ')
  return (
    <Stack
      title="Retries"
      note={`Per ${intervalText(intervalSeconds)}; ${count}`}
      hue={by === 'cause' ? 'reason' : 'server'}
      data={shown}
      text={formatCount}
      empty="No request was retried in this range."
      actions={
        <Segmented
          label="Retries by"
          value={by}
          options={[
            { value: 'cause', label: 'Cause' },
            { value: 'server', label: 'Failed server' },
          ]}
          onChange={setBy}
        />
      }
      {...rest}
    />
  )
}

export function FailedRequests({ data, ...rest }: HistoryChart) {
  const shown = useMemo(() => prepareCauses(data, data.failures, SERVER_EVENTS), [data])
  return (
    <Stack
      title="Failed requests"
      note={`Per ${intervalText(data.intervalSeconds)}, by cause; faults include timeouts`}
      hue="reason"
      data={shown}
      text={formatCount}
      empty="No request failed in this range."
      {...rest}
    />
  )
}

const WITHIN = 'accurate to one histogram bucket (9 %)'

export function LatencyByServer({ data, ...rest }: HistoryChart) {
  const { p95Ms } = data
  const shown = useMemo(() => prepareDurations(data, data.p95Ms.series, SERVER_EVENTS), [data])
  return (
    <Lines
      title="Latency p95 by server"
      note={`Requests that returned a score; ${WITHIN}${omittedText(p95Ms, 'servers')}`}
      data={shown}
      hue="server"
      text={durationText}
      empty="No request returned a score in this range."
      {...rest}
    />
  )
}

const NO_LATENCY = {
  queue: 'No dispatched sample finished in this range.',
  router: 'No sample with a server request finished in this range.',
  service: 'No sample with a server request or a rule finished in this range.',
}
const KINDS = { queue: 'Queue', router: 'Router', service: 'Service' } as const

export function LatencyChart({ data, ...rest }: HistoryChart) {
  const [kind, setKind] = useState<keyof typeof KINDS>('service')
  const quantiles = data.latency[kind]
  const shown = useMemo(() => {
    const of = (q: 'p50' | 'p95' | 'p99') => ({
      name: q,
      values: data.latency[kind].map((at) => at[q]),
    })
    return prepareDurations(data, [of('p50'), of('p95'), of('p99')], ALL_EVENTS)
  }, [data, kind])
  return (
    <Lines
      title="Latency"
      note={`n = ${formatCount(quantiles.reduce((sum, { n }: QuantilesDto) => sum + n, 0))}; ${WITHIN}`}
      data={shown}
      colors={['var(--data-1)', 'var(--data-2)', 'var(--data-4)']}
      text={durationText}
      empty={NO_LATENCY[kind]}
      actions={
        <Segmented
          label="Latency stage"
          value={kind}
          options={Object.entries(KINDS).map(([value, label]) => ({
            ...{ value: value as keyof typeof KINDS, label },
          }))}
          onChange={setKind}
        />
      }
      {...rest}
    />
  )
}

type ValueText = (value: number | null) => string

interface Shown extends Omit<HistoryChart, 'data'> {
  title: string
  note: string
  data: HistoryData
  empty: string
  actions?: ReactNode
}

function timeOf({ rows }: HistoryData): (row: { at: number }) => string {
  const span = (rows.at(-1)?.at ?? 0) - (rows[0]?.at ?? 0)
  return ({ at }) => timeLabel(at, span)
}

function tableOf(data: HistoryData, text: ValueText) {
  const time = timeOf(data)
  const names = [...data.names, ...data.lines]
  const events = new Map(
    data.events.map((mark) => [
      mark.at,
      mark.events.map(({ label, note }) => `${label}: ${note}`).join('; '),
    ]),
  )
  const hasEvents = events.size > 0
  return {
    head: ['Time', ...names, ...(hasEvents ? ['Events'] : [])],
    rows: data.rows
      .toReversed()
      .map((row) => [
        time(row),
        ...names.map((name) => text(row[`of:${name}`] ?? null)),
        ...(hasEvents ? [events.get(row.at) ?? ''] : []),
      ]),
  }
}

function eventLegend({ events }: HistoryData) {
  if (events.length === 0) return []
  const color = events.some(({ isBad }) => isBad) ? 'var(--bad)' : 'var(--ok)'
  return [{ label: 'Event', color, stroke: 'dashed' as const }]
}

function Stack({
  title,
  note,
  data,
  hue,
  text = formatRate,
  empty,
  actions,
  onRange,
  className = FRAME,
}: Shown & { hue: HueKind; text?: ValueText }) {
  const series = data.names.map((name) => ({
    key: `of:${name}`,
    label: name,
    color: name === data.others ? 'var(--ink-3)' : hueOf(hue, name),
  }))
  const lines = data.lines.map((name) => ({
    ...{ key: `of:${name}`, label: name, color: 'var(--ink)', stroke: 'solid' as const },
  }))
  return (
    <ChartFrame
      className={className}
      title={title}
      note={note}
      actions={actions}
      legend={[...series, ...lines, ...eventLegend(data)]}
      empty={!data.hasValues && data.events.length === 0 && empty}
      chart={
        <StackPlot
          rows={data.rows}
          series={series}
          lines={lines}
          title={`${title}: ${note}`}
          timeTicks={data.timeTicks}
          countTicks={data.valueTicks}
          sync={SYNC}
          timeText={timeOf(data)}
          valueText={text}
          isSparse
          events={data.events}
          {...(onRange && { onRange })}
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
  empty,
  actions,
  onRange,
  className = FRAME,
}: Shown & {
  hue?: HueKind
  colors?: readonly string[]
  text: ValueText
}) {
  const series = data.names.map((name, at) => ({
    ...{ key: `of:${name}` as const, label: name, stroke: 'solid' as const },
    color: colors?.[at] ?? hueOf(hue, name),
  }))
  return (
    <ChartFrame
      className={className}
      title={title}
      note={note}
      actions={actions}
      legend={[...series, ...eventLegend(data)]}
      empty={!data.hasValues && data.events.length === 0 && empty}
      chart={
        <LinesPlot
          data={data}
          series={series}
          title={`${title}: ${note}`}
          sync={SYNC}
          timeText={timeOf(data)}
          valueText={text}
          {...(onRange && { onRange })}
        />
      }
      table={tableOf(data, text)}
    />
  )
}
