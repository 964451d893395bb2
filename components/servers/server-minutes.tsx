'use client'

import type { ReactNode } from 'react'
import { CALL_END_LOOK } from '../charts/call-ends.ts'
import { ChartFrame } from '../charts/chart-frame.tsx'
import { hueOf } from '../charts/hue.ts'
import { CallsPlot, LatencyPlot } from '../charts/lazy-plots.tsx'
import { CALL_ENDS, type ServerMinutesData } from '../charts/server-minutes.prepare.ts'
import { durationText, formatCount, plural } from '../format/numbers.ts'
import { clockTime, dateTime } from '../format/time.ts'

/** p50 and p99 per minute over the last hour. */
export function LatencyChart({ name, data }: { name: string; data: ServerMinutesData }) {
  const color = hueOf('server', name)
  return (
    <ChartFrame
      title="Latency"
      note={
        data.timed === 0
          ? 'no scores in the last hour'
          : `n = ${plural(data.totals.answered, 'answered request')}, last hour`
      }
      chart={
        data.timed === 0 ? (
          <Nothing data={data} />
        ) : (
          <WithLegend
            legend={
              <>
                <Stroke color={color} word="p50" />
                <Stroke color={color} word="p99" dashed />
              </>
            }
          >
            <LatencyPlot data={data} color={color} />
          </WithLegend>
        )
      }
      table={{
        head: ['Minute', 'p50', 'p99', 'Answered'],
        rows: data.minutes
          .filter((minute) => minute.requests > 0 || minute.p50Ms !== null)
          .toReversed()
          .map((minute) => [
            clockTime(minute.atMs).slice(0, 5),
            durationText(minute.p50Ms),
            durationText(minute.p99Ms),
            formatCount(minute.answered),
          ]),
      }}
    />
  )
}

/** Requests per minute by outcome, with retried and hedged ones. */
export function CallsChart({ data, className }: { data: ServerMinutesData; className: string }) {
  const { totals } = data
  const shown = CALL_ENDS.filter((end) => totals[end] > 0)
  const none = totals.requests + totals.errors === 0
  return (
    <ChartFrame
      className={className}
      title="Requests per minute"
      note={
        none
          ? 'no requests in the last hour'
          : `n = ${plural(totals.requests, 'request')}, last hour`
      }
      chart={
        none ? (
          <Nothing data={data} />
        ) : (
          <WithLegend
            legend={
              <>
                {shown.map((end) => (
                  <span key={end} className="flex items-center gap-1.5">
                    <span
                      className={`size-2 rounded-[2px] ${end === 'failed' ? 'hatch' : ''}`}
                      style={end === 'failed' ? {} : { background: CALL_END_LOOK[end].color }}
                      aria-hidden
                    />
                    {CALL_END_LOOK[end].word} {formatCount(totals[end])}
                  </span>
                ))}
                {totals.retries > 0 && (
                  <Stroke color="var(--ink)" word={`retried ${formatCount(totals.retries)}`} />
                )}
                {totals.hedges > 0 && (
                  <Stroke
                    color="var(--ink-3)"
                    word={`hedged ${formatCount(totals.hedges)}`}
                    dashed
                  />
                )}
              </>
            }
          >
            <CallsPlot data={data} />
          </WithLegend>
        )
      }
      table={{
        head: [
          'Minute',
          'Requests',
          ...CALL_ENDS.map((end) => CALL_END_LOOK[end].word),
          'retried',
          'hedged',
        ],
        rows: data.minutes
          .filter((minute) => minute.requests + minute.errors > 0)
          .toReversed()
          .map((minute) => [
            clockTime(minute.atMs).slice(0, 5),
            formatCount(minute.requests),
            ...CALL_ENDS.map((end) => formatCount(minute[end])),
            formatCount(minute.retries),
            formatCount(minute.hedges),
          ]),
      }}
    />
  )
}

/** The legend above its plot, so that the titles of adjacent charts align. */
function WithLegend({ legend, children }: { legend: ReactNode; children: ReactNode }) {
  return (
    <div className="flex h-full flex-col">
      <div className="num mb-1 flex flex-wrap items-center gap-x-3 text-xs text-ink-3">
        {legend}
      </div>
      <div className="min-h-0 flex-1">{children}</div>
    </div>
  )
}

function Stroke({ color, word, dashed }: { color: string; word: string; dashed?: boolean }) {
  return (
    <span className="flex items-center gap-1.5">
      <svg width={14} height={8} aria-hidden>
        <line
          x2={14}
          y1={4}
          y2={4}
          stroke={color}
          strokeWidth={1.75}
          strokeDasharray={dashed ? '4 3' : undefined}
        />
      </svg>
      {word}
    </span>
  )
}

function Nothing({ data }: { data: ServerMinutesData }) {
  return (
    <p className="flex h-full items-center justify-center rounded-lg border border-dashed text-center text-ink-3">
      {data.lastCallMs === null
        ? 'One point per minute appears here once it receives requests.'
        : `Last request at ${dateTime(data.lastCallMs).slice(0, 16)}.`}
    </p>
  )
}
