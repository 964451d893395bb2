'use client'

import { useMemo } from 'react'
import type { RetryMinuteDto } from '../../server/contract/pages.ts'
import { ChartFrame } from '../charts/chart-frame.tsx'
import { hueOf } from '../charts/hue.ts'
import { prepareRetries } from '../charts/retries.prepare.ts'
import { RetriesPlot } from '../charts/retries-plot.tsx'
import { formatCount, plural } from '../format/numbers.ts'
import { clockTime } from '../format/time.ts'
import { useNow } from '../live/live-provider.tsx'
import { Section } from '../ui/section.tsx'

/** Retries per minute by cause, or a line of text where there were none. */
export function RetriesChart({ rows }: { rows: RetryMinuteDto[] }) {
  const minute = Math.floor(useNow() / 60_000) * 60_000
  const data = useMemo(() => prepareRetries(rows, minute), [rows, minute])
  if (data.total === 0) {
    return (
      <Section title="Retries" note="last hour">
        <p className="px-5 pb-5 text-ink-2">No retries.</p>
      </Section>
    )
  }
  return (
    <ChartFrame
      title="Retries per minute"
      note={`n = ${plural(data.total, 'request')}, last hour`}
      chart={
        <div className="flex h-full flex-col gap-3">
          <ul aria-label="Causes" className="num flex flex-wrap gap-x-4 gap-y-1 text-xs text-ink-2">
            {data.reasons.map(({ reason, count }) => (
              <li key={reason} className="flex items-center gap-1.5">
                <span
                  className="size-2 rounded-[2px]"
                  style={{ background: hueOf('reason', reason) }}
                  aria-hidden
                />
                {reason} <span className="unit">{formatCount(count)}</span>
              </li>
            ))}
          </ul>
          <div className="min-h-0 flex-1">
            <RetriesPlot data={data} />
          </div>
        </div>
      }
      table={{
        head: ['Minute', ...data.reasons.map(({ reason }) => reason), 'Total'],
        rows: data.minutes
          .toReversed()
          .map((minute) => [
            clockTime(minute.atMs).slice(0, 5),
            ...data.reasons.map(({ reason }) => minute[reason] ?? 0),
            minute.total,
          ]),
      }}
    />
  )
}
