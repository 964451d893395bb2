'use client'

import { useMemo } from 'react'
import type { RetryMinuteDto } from '../../server/contract/pages.ts'
import { ChartFrame } from '../charts/chart-frame.tsx'
import { StackPlot } from '../charts/fleet-plots.tsx'
import { hueOf } from '../charts/hue.ts'
import { prepareRetries } from '../charts/retries.prepare.ts'
import { formatCount, plural } from '../format/numbers.ts'
import { minuteTime } from '../format/time.ts'
import { useNow } from '../live/live-provider.tsx'

/** Retries per minute by reason. */
export function RetriesChart({ rows }: { rows: RetryMinuteDto[] }) {
  const minute = Math.floor(useNow() / 60_000) * 60_000
  const data = useMemo(() => prepareRetries(rows, minute), [rows, minute])
  const causes = data.reasons.map(({ reason, count }) => ({
    ...{ key: reason, label: reason, color: hueOf('reason', reason), value: formatCount(count) },
  }))
  return (
    <ChartFrame
      title="Retries per minute"
      note={`n = ${plural(data.total, 'request')}, last hour`}
      legend={causes}
      chart={
        <StackPlot
          rows={data.minutes}
          series={causes}
          title={`${formatCount(data.total)} retries in the last hour, one bar per minute`}
          timeTicks={data.timeTicks}
          countTicks={data.countTicks}
          timeText={({ at }) => minuteTime(at)}
          isSparse
        />
      }
      table={{
        head: ['Minute', ...data.reasons.map(({ reason }) => reason), 'Total'],
        rows: data.minutes
          .toReversed()
          .map((minute) => [
            minuteTime(minute.at),
            ...data.reasons.map(({ reason }) => Number(minute[reason] ?? 0)),
            minute.total,
          ]),
      }}
    />
  )
}
