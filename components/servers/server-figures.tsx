'use client'

import type { ServerDetailDto } from '../../server/contract/server-detail.ts'
import { hueOf } from '../charts/hue.ts'
import type { ServerMinutesData } from '../charts/server-minutes.prepare.ts'
import { Sparkline } from '../charts/sparkline.tsx'
import {
  formatCompact,
  formatCount,
  formatDuration,
  formatPercent,
  formatRate,
  percentText,
} from '../format/numbers.ts'
import { useTrail } from '../overview/trail.ts'
import { Figure, FigureStrip } from '../ui/figure-strip.tsx'
import { SegmentBar } from '../ui/segment-bar.tsx'

export function ServerFigures({
  server,
  minutes: { minutes, totals },
}: {
  server: ServerDetailDto
  minutes: ServerMinutesData
}) {
  const inFlight = useTrail(server.inFlight)
  const color = hueOf('server', server.name)
  const p50 = formatDuration(server.p50Ms)
  const p99 = formatDuration(server.p99Ms)
  const share = formatPercent(server.share)
  const own = server.pool.find((part) => part.id === server.id)
  const capacity = own?.capacityShare ?? 0
  const hour = minutes.slice(-60)
  const failed =
    totals.requests + totals.errors === 0
      ? null
      : totals.errors / Math.max(totals.requests, totals.errors)
  const errors = formatPercent(failed)
  return (
    <FigureStrip label={`Figures of ${server.name}`}>
      <Figure
        label="Requests"
        value={formatRate(server.requestsPerSecond)}
        unit="req/s"
        detail={
          server.requests === 0
            ? 'None since registration'
            : `${formatCompact(server.requests)} since registration`
        }
      >
        <Sparkline
          readings={hour.map((minute) => minute.requests)}
          label="Requests per minute"
          color={color}
        />
      </Figure>
      <Figure
        label="Latency p50"
        hint="Median latency of requests that returned a score, last 10 minutes."
        value={p50.value}
        {...(p50.unit ? { unit: p50.unit } : {})}
        detail="Last 10 min"
      >
        <Sparkline
          readings={hour.map((minute) => minute.p50Ms)}
          label="Latency p50 per minute, last hour"
          color={color}
        />
      </Figure>
      <Figure
        label="Latency p99"
        hint="99th percentile of the latency of requests that returned a score, last 10 minutes."
        value={p99.value}
        {...(p99.unit ? { unit: p99.unit } : {})}
        detail="Last 10 min"
      >
        <Sparkline
          readings={hour.map((minute) => minute.p99Ms)}
          label="Latency p99, last hour"
          color={color}
        />
      </Figure>
      <Figure
        label="Errors"
        value={errors.value}
        {...(errors.unit ? { unit: errors.unit } : {})}
        detail={
          totals.requests === 0
            ? 'No requests in the last hour'
            : `${formatCount(totals.errors)} of ${formatCount(totals.requests)}, last hour`
        }
      >
        <Sparkline
          readings={hour.map((minute) => minute.errors)}
          label="Errors per minute"
          color={totals.errors > 0 ? 'var(--bad)' : 'var(--ink-3)'}
        />
      </Figure>
      <Figure
        label="In flight"
        value={formatCount(server.inFlight)}
        unit={`of ${formatCount(server.limit)}`}
        detail={server.hasFixedLimit ? 'Fixed limit' : 'Adaptive limit'}
      >
        <Sparkline
          readings={inFlight}
          label="Requests in flight, last 60 s"
          color="var(--data-6)"
        />
      </Figure>
      <Figure
        label="Share of pool requests"
        hint="The server’s share of its pool’s requests in the last 10 minutes, and its share of the pool’s capacity."
        value={share.value}
        {...(share.unit ? { unit: share.unit } : {})}
        detail={capacity === 0 ? 'Not ready, no capacity' : `${percentText(capacity)} of capacity`}
      >
        <SegmentBar
          className="mt-2 h-2"
          segments={[
            { key: 'requests', share: server.share ?? 0, color },
            {
              key: 'capacity',
              share: capacity > 0 ? 1e-6 : 0,
              from: capacity,
              color: 'var(--ink)',
            },
          ]}
        />
      </Figure>
    </FigureStrip>
  )
}
