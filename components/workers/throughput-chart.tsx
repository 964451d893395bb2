'use client'

import { useMemo } from 'react'
import type { WorkerDto } from '../../server/contract/pages.ts'
import { ChartFrame } from '../charts/chart-frame.tsx'
import { hueOf } from '../charts/hue.ts'
import { lazyPlot } from '../charts/lazy-plot.tsx'
import { prepareThroughput } from '../charts/throughput.prepare.ts'
import { useInTurn } from '../charts/use-in-turn.ts'
import { formatRate, plural } from '../format/numbers.ts'

const StackPlot = lazyPlot(async () => (await import('../charts/fleet-plots.tsx')).StackPlot)

const timeText = ({ at }: { at: number }) => (at === 0 ? 'now' : `${-at}\u00a0s ago`)

/** Samples per second over the last minute, stacked by worker. */
export function ThroughputChart({ workers }: { workers: WorkerDto[] }) {
  const data = useInTurn(useMemo(() => prepareThroughput(workers), [workers]))
  const keys = [...data.workers, ...(data.others === null ? [] : [data.others])]
  const series = keys.map((key) => ({
    ...{ key, label: key, color: key === data.others ? 'var(--ink-3)' : hueOf('worker', key) },
  }))
  return (
    <ChartFrame
      className="border-b"
      title="Worker throughput"
      note={`samples/s of ${plural(workers.length, 'worker')}, last 60 s`}
      legend={series}
      empty={!data.hasSamples && 'No samples scored in the last 60 s.'}
      height={data.hasSamples ? 180 : 96}
      chart={
        <StackPlot
          rows={data.seconds}
          series={series}
          title={`Samples per second of ${plural(workers.length, 'worker')}, last 60 s`}
          timeTicks={data.timeTicks}
          countTicks={data.countTicks}
          timeText={timeText}
          valueText={formatRate}
        />
      }
      table={{
        head: ['Time', ...keys, 'Total'],
        rows: data.seconds.toReversed().map((second) => {
          const rates = keys.map((key) => second[key] ?? 0)
          return [
            timeText(second),
            ...rates.map((rate) => formatRate(rate)),
            formatRate(rates.reduce((sum, rate) => sum + rate, 0)),
          ]
        }),
      }}
    />
  )
}
