'use client'

import { useQuery } from '@tanstack/react-query'
import type { FleetHistoryDto } from '../../server/contract/fleet-history.ts'
import { useTRPC } from '../api/trpc.ts'
import { Sparkline } from '../charts/sparkline.tsx'
import { durationText, formatCount, formatRate } from '../format/numbers.ts'
import { useLive } from '../live/live-provider.tsx'
import { PageLink } from '../shell/page-link.tsx'
import { Figure, FigureStrip } from '../ui/figure-strip.tsx'
import { Section } from '../ui/section.tsx'

const HOUR_S = 3_600
const LINK = 'text-accent hover:underline'
/** Refetch interval: one interval of the range. */
const REFRESH_MS = 20_000

interface Glance {
  label: string
  readings: readonly (number | null)[]
  text(value: number | null): string
  detail: string
  /** The figure is the sum over the hour, not the mean. */
  isSum?: boolean
}

/** The fleet over the last hour, in small: sparklines, because the overview loads no chart library. */
export function FleetGlance() {
  const trpc = useTRPC()
  const { state } = useLive()
  const { data } = useQuery(
    trpc.fleet.history.queryOptions(
      { seconds: HOUR_S },
      {
        meta: { topics: ['servers', 'workers'], minGapMs: 2_000 },
        refetchInterval: state.frozenAt === null ? REFRESH_MS : false,
      },
    ),
  )
  if (data === undefined || !hasActivity(data)) return null
  const perSecond = (counts: readonly number[]) => counts.map((n) => n / data.intervalSeconds)
  const samples = perSecond(
    total(data, data.workers, ({ scored, failed }) => scored.map((n, at) => n + (failed[at] ?? 0))),
  )
  const requests = perSecond(total(data, data.servers, ({ requests }) => requests))
  const failed = total(data, data.servers, ({ failures }) =>
    failures.fault.map(
      (n, at) =>
        n + (failures.busy[at] ?? 0) + (failures.invalid[at] ?? 0) + (failures.refused[at] ?? 0),
    ),
  )
  const imbalance = Array.from({ length: data.intervals }, (_, at) => {
    const values = data.imbalance.flatMap(({ values }) => values[at] ?? [])
    return values.length === 0 ? null : Math.max(...values)
  })
  const figures: Glance[] = [
    { label: 'Throughput', readings: samples, text: formatRate, detail: 'samples/s, mean' },
    { label: 'Requests', readings: requests, text: formatRate, detail: 'requests/s, mean' },
    {
      ...{ label: 'Failed requests', readings: failed, text: formatCount },
      ...{ detail: 'in the last hour', isSum: true },
    },
    {
      ...{ label: 'Imbalance', readings: imbalance },
      text: (value: number | null) => (value === null ? '–' : `${value.toFixed(2)}×`),
      detail: 'request ÷ capacity share',
    },
    {
      ...{ label: 'Service p95', readings: data.latency.service.map(({ p95 }) => p95) },
      ...{ text: durationText, detail: 'calls and rules, mean' },
    },
    {
      ...{ label: 'Queue p95', readings: data.latency.queue.map(({ p95 }) => p95) },
      ...{ text: durationText, detail: 'until first dispatch, mean' },
    },
  ]
  return (
    <Section
      title="Last hour"
      className="border-t"
      note={
        <>
          charts on{' '}
          <PageLink href="/servers?last=3600" className={LINK}>
            Servers
          </PageLink>{' '}
          and{' '}
          <PageLink href="/workers?last=3600" className={LINK}>
            Workers
          </PageLink>
        </>
      }
    >
      <FigureStrip label="Last hour">
        {figures.map(({ label, readings, text, detail, isSum }) => (
          <Figure key={label} label={label} value={text(summary(readings, isSum))} detail={detail}>
            <Sparkline
              readings={readings}
              slots={data.intervals}
              label={`${label} over the last hour`}
            />
          </Figure>
        ))}
      </FigureStrip>
    </Section>
  )
}

function hasActivity({ workers, servers }: FleetHistoryDto): boolean {
  return (
    workers.some(({ scored, failed }) => [...scored, ...failed].some((n) => n > 0)) ||
    servers.some(({ requests }) => requests.some((n) => n > 0))
  )
}

/** The sum over workers or servers, by interval. */
function total<T>(
  { intervals }: FleetHistoryDto,
  some: readonly T[],
  of: (one: T) => readonly number[],
): number[] {
  const sums = new Array<number>(intervals).fill(0)
  for (const one of some) for (const [at, n] of of(one).entries()) sums[at] = (sums[at] ?? 0) + n
  return sums
}

/** The sum, or the mean of the intervals with a value; null without any. */
function summary(readings: readonly (number | null)[], isSum = false): number | null {
  const values = readings.filter((value) => value !== null)
  const sum = values.reduce((a, b) => a + b, 0)
  if (isSum) return sum
  return values.length === 0 ? null : sum / values.length
}
