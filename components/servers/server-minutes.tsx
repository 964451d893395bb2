'use client'

import { ChartFrame } from '../charts/chart-frame.tsx'
import { hueOf } from '../charts/hue.ts'
import { lazyPlot } from '../charts/lazy-plot.tsx'
import {
  REQUEST_OUTCOMES,
  type RequestOutcome,
  type ServerMinutesData,
} from '../charts/server-minutes.prepare.ts'
import { durationText, formatCount, plural } from '../format/numbers.ts'
import { dateTime, minuteTime } from '../format/time.ts'

const LatencyPlot = lazyPlot(async () => (await import('../charts/fleet-plots.tsx')).LatencyPlot)
const StackPlot = lazyPlot(async () => (await import('../charts/fleet-plots.tsx')).StackPlot)

const SYNC = 'server-minutes'

const OUTCOME: Record<RequestOutcome, { label: string; color: string; isHatched?: boolean }> = {
  answered: { label: 'Answered', color: 'var(--data-1)' },
  failed: { label: 'Failed', color: 'var(--bad)', isHatched: true },
  busy: { label: 'Busy', color: 'var(--data-2)' },
  refused: { label: 'Refused', color: 'var(--data-4)' },
  corrupt: { label: 'Invalid response', color: 'var(--data-5)' },
}
const RESENT = {
  retries: { label: 'Retried', color: 'var(--ink)', stroke: 'solid' },
  hedges: { label: 'Hedged', color: 'var(--ink-3)', stroke: 'dashed' },
} as const

export function LatencyChart({ name, data }: { name: string; data: ServerMinutesData }) {
  const color = hueOf('server', name)
  return (
    <ChartFrame
      title="Latency"
      note={
        data.timed === 0
          ? 'No scores in the last hour'
          : `n = ${plural(data.totals.answered, 'answered request')}, last hour`
      }
      legend={[
        { label: 'p50', color, stroke: 'solid' },
        { label: 'p99', color, stroke: 'dashed' },
      ]}
      empty={
        data.timed === 0 &&
        (data.totals.requests > 0
          ? 'No request returned a score in the last hour.'
          : noneText(data))
      }
      chart={<LatencyPlot data={data} color={color} sync={SYNC} />}
      table={{
        head: ['Minute', 'p50', 'p99', 'Answered'],
        rows: data.minutes
          .filter((minute) => minute.requests > 0 || minute.p50Ms !== null)
          .toReversed()
          .map((minute) => [
            minuteTime(minute.at),
            durationText(minute.p50Ms),
            durationText(minute.p99Ms),
            formatCount(minute.answered),
          ]),
      }}
    />
  )
}

export function CallsChart({ data, className }: { data: ServerMinutesData; className: string }) {
  const { totals } = data
  const none = totals.requests + totals.errors === 0
  const series = <Key extends keyof typeof totals, Look>(
    keys: readonly Key[],
    looks: Record<Key, Look>,
  ) =>
    keys
      .filter((key) => totals[key] > 0)
      .map((key) => ({ ...looks[key], key, value: formatCount(totals[key]) }))
  const outcomes = series(REQUEST_OUTCOMES, OUTCOME)
  const resent = series(['retries', 'hedges'], RESENT)
  return (
    <ChartFrame
      className={className}
      title="Requests per minute"
      note={
        none
          ? 'No requests in the last hour'
          : `n = ${plural(totals.requests, 'request')}, last hour`
      }
      legend={[...outcomes, ...resent]}
      empty={none && noneText(data)}
      chart={
        <StackPlot
          rows={data.minutes}
          series={outcomes}
          lines={resent}
          title={`${formatCount(totals.requests)} requests in the last hour, one bar per minute`}
          timeTicks={data.timeTicks}
          countTicks={data.countTicks}
          sync={SYNC}
          timeText={({ at }) => minuteTime(at)}
        />
      }
      table={{
        head: [
          'Minute',
          'Requests',
          ...REQUEST_OUTCOMES.map((end) => OUTCOME[end].label),
          RESENT.retries.label,
          RESENT.hedges.label,
        ],
        rows: data.minutes
          .filter((minute) => minute.requests + minute.errors > 0)
          .toReversed()
          .map((minute) => [
            minuteTime(minute.at),
            formatCount(minute.requests),
            ...REQUEST_OUTCOMES.map((end) => formatCount(minute[end])),
            formatCount(minute.retries),
            formatCount(minute.hedges),
          ]),
      }}
    />
  )
}

function noneText(data: ServerMinutesData): string {
  return data.lastCallMs === null
    ? 'One point per minute appears here once the server receives requests.'
    : `Last request at ${dateTime(data.lastCallMs).slice(0, 16)}.`
}
