'use client'

import { HISTORY_RANGES_S } from '../../server/contract/fleet-history.ts'
import { dateTime } from '../format/time.ts'
import { Button } from '../ui/button.tsx'
import { Segmented } from '../ui/field.tsx'
import { QueryView } from '../ui/query-view.tsx'
import { Section } from '../ui/section.tsx'
import { ChartSkeleton } from '../ui/skeleton.tsx'
import {
  EventLoopDelay,
  FailedRequests,
  Imbalance,
  intervalText,
  LatencyByServer,
  LatencyChart,
  Load,
  RequestsByServer,
  Retries,
  Throughput,
} from './history-charts.tsx'
import { type HistoryRange, partOf } from './history-range.ts'
import { useFleetHistory } from './use-fleet-history.ts'

const RANGE_LABEL: Record<(typeof HISTORY_RANGES_S)[number], string> = {
  900: '15 min',
  3600: '1 h',
  21600: '6 h',
  86400: '24 h',
  604800: '7 d',
  2592000: '30 d',
}

const CHARTS = {
  workers: { Throughput, Load, LatencyChart, EventLoopDelay },
  servers: { RequestsByServer, Imbalance, Retries, LatencyByServer, FailedRequests, LatencyChart },
}

export function FleetHistory({
  of,
  range,
  onRange,
}: {
  of: 'workers' | 'servers'
  range: HistoryRange
  onRange(range: HistoryRange, how: 'push' | 'replace'): void
}) {
  const history = useFleetHistory(range)
  const { part, last } = range
  return (
    <Section
      title="History"
      note={
        history.data &&
        `${part === null ? 'Intervals' : `${partText(part)}, intervals`} of ${intervalText(history.data.intervalSeconds)}`
      }
      className="border-b"
      actions={
        <>
          {part !== null && (
            <Button
              small
              title={`Show the last ${RANGE_LABEL[last as keyof typeof RANGE_LABEL]} again`}
              onClick={() => onRange({ last, part: null }, 'push')}
            >
              Reset range
            </Button>
          )}
          <Segmented
            label="Time range"
            value={part === null ? String(last) : ''}
            options={HISTORY_RANGES_S.map((seconds) => ({
              ...{ value: String(seconds), label: RANGE_LABEL[seconds] },
            }))}
            onChange={(seconds) => onRange({ last: Number(seconds), part: null }, 'replace')}
          />
        </>
      }
    >
      <QueryView query={history} skeleton={<ChartSkeleton height={200} />}>
        {(data) => (
          <div className="grid border-t md:grid-cols-2">
            {Object.entries(CHARTS[of]).map(([name, Chart]) => (
              <Chart
                key={name}
                data={data}
                onRange={(from, to) =>
                  onRange({ last, part: partOf(from, to, data.intervalSeconds) }, 'push')
                }
              />
            ))}
          </div>
        )}
      </QueryView>
    </Section>
  )
}

/** Formats a time range, such as `11-23 14:02:10 – 14:20:00`. */
function partText({ from, to }: { from: number; to: number }): string {
  const [first, second] = [dateTime(from * 1_000).slice(5), dateTime(to * 1_000).slice(5)]
  const isSameDay = first.slice(0, 5) === second.slice(0, 5)
  return `${first} – ${isSameDay ? second.slice(6) : second}`
}
