'use client'

import { useId } from 'react'
import {
  Bar,
  Cell,
  ComposedChart,
  Line,
  LineChart,
  ResponsiveContainer,
  Tooltip,
  XAxis,
  YAxis,
} from 'recharts'
import { durationText, formatCount } from '../format/numbers.ts'
import { clockTime } from '../format/time.ts'
import { CALL_END_LOOK } from './call-ends.ts'
import { AXIS, CURSOR, GRID, labelOf, MARGIN, TICK } from './plot-parts.tsx'
import { CALL_ENDS, type CallMinute, type ServerMinutesData } from './server-minutes.prepare.ts'
import { Tip } from './tip.tsx'

/** The plots of a server page share their cursor. */
const SYNC = 'server-minutes'

/** Room for half of the label below the last minute. */
const MINUTES_MARGIN = { ...MARGIN, right: 18 }

const minuteText = (at: number) => clockTime(at).slice(0, 5)

/** p50 and p99 latency per minute of requests that returned a score; a minute without one is a gap. */
export function LatencyPlot({ data, color }: { data: ServerMinutesData; color: string }) {
  return (
    <ResponsiveContainer width="100%" height="100%">
      <LineChart
        data={data.minutes}
        margin={MINUTES_MARGIN}
        syncId={SYNC}
        title={`p50 and p99 of the last hour, ${formatCount(data.timed)} minutes with a score`}
      >
        {GRID}
        <XAxis
          dataKey="atMs"
          tick={TICK}
          axisLine={AXIS}
          tickLine={false}
          ticks={data.timeTicks}
          interval={0}
          tickFormatter={minuteText}
        />
        <YAxis
          width={52}
          tick={TICK}
          axisLine={false}
          tickLine={false}
          domain={[0, data.latencyTicks.at(-1)?.at ?? 1]}
          ticks={data.latencyTicks.map((tick) => tick.at)}
          tickFormatter={labelOf(data.latencyTicks)}
        />
        <Tooltip
          cursor={{ stroke: 'var(--ink-3)' }}
          isAnimationActive={false}
          content={({ active, payload }) => {
            const minute = payload?.[0]?.payload as CallMinute | undefined
            return active && minute ? (
              <Tip
                title={minuteText(minute.atMs)}
                rows={[
                  { label: 'p99', value: durationText(minute.p99Ms), color },
                  { label: 'p50', value: durationText(minute.p50Ms), color },
                  { label: 'requests', value: formatCount(minute.requests) },
                ]}
              />
            ) : null
          }}
        />
        <Line
          dataKey="p99Ms"
          stroke={color}
          strokeWidth={1.75}
          strokeDasharray="4 3"
          dot={<LonePoint data={data.minutes} of="p99Ms" color={color} />}
          activeDot={{ r: 3 }}
          isAnimationActive={false}
        />
        <Line
          dataKey="p50Ms"
          stroke={color}
          strokeWidth={1.75}
          dot={<LonePoint data={data.minutes} of="p50Ms" color={color} />}
          activeDot={{ r: 3 }}
          isAnimationActive={false}
        />
      </LineChart>
    </ResponsiveContainer>
  )
}

/** A minute between two gaps has no line, so it is drawn as a point. */
function LonePoint({
  cx,
  cy,
  index,
  data,
  of,
  color,
}: {
  cx?: number
  cy?: number
  index?: number
  data: readonly CallMinute[]
  of: 'p50Ms' | 'p99Ms'
  color: string
}) {
  const at = index ?? 0
  const here = data[at]?.[of] ?? null
  const alone = (data[at - 1]?.[of] ?? null) === null && (data[at + 1]?.[of] ?? null) === null
  if (here === null || !alone || cx === undefined || cy === undefined) return null
  return <circle cx={cx} cy={cy} r={2.25} fill={color} />
}

/** Requests per minute by outcome, stacked; retries and hedged requests as lines. */
export function CallsPlot({ data }: { data: ServerMinutesData }) {
  const hatch = useId()
  const shown = CALL_ENDS.filter((end) => data.totals[end] > 0)
  return (
    <ResponsiveContainer width="100%" height="100%">
      <ComposedChart
        data={data.minutes}
        margin={MINUTES_MARGIN}
        syncId={SYNC}
        barCategoryGap={1}
        title={`${formatCount(data.totals.requests)} requests in the last hour, one bar per minute`}
      >
        <defs>
          <pattern
            id={hatch}
            width={4}
            height={4}
            patternUnits="userSpaceOnUse"
            patternTransform="rotate(-45)"
          >
            <rect width={4} height={4} fill="color-mix(in oklab, var(--bad) 18%, var(--surface))" />
            <rect width={4} height={1.6} fill="var(--bad)" />
          </pattern>
        </defs>
        {GRID}
        <XAxis
          dataKey="atMs"
          tick={TICK}
          axisLine={AXIS}
          tickLine={false}
          ticks={data.timeTicks}
          interval={0}
          tickFormatter={minuteText}
        />
        <YAxis
          width={52}
          tick={TICK}
          axisLine={false}
          tickLine={false}
          domain={[0, data.countTicks.at(-1)?.at ?? 1]}
          ticks={data.countTicks.map((tick) => tick.at)}
          tickFormatter={labelOf(data.countTicks)}
        />
        <Tooltip
          cursor={CURSOR}
          isAnimationActive={false}
          content={({ active, payload }) => {
            const minute = payload?.[0]?.payload as CallMinute | undefined
            if (!active || !minute) return null
            return (
              <Tip
                title={`${minuteText(minute.atMs)}${minute.running ? ', in progress' : ''}`}
                rows={[
                  ...shown.map((end) => ({
                    label: CALL_END_LOOK[end].word,
                    value: formatCount(minute[end]),
                    color: CALL_END_LOOK[end].color,
                  })),
                  { label: 'retried', value: formatCount(minute.retries) },
                  { label: 'hedged', value: formatCount(minute.hedges) },
                ]}
              />
            )
          }}
        />
        {shown.map((end) => (
          <Bar key={end} dataKey={end} stackId="requests" isAnimationActive={false}>
            {data.minutes.map((minute) => (
              <Cell
                key={minute.atMs}
                fill={end === 'failed' ? `url(#${hatch})` : CALL_END_LOOK[end].color}
                fillOpacity={minute.running ? 0.45 : 1}
              />
            ))}
          </Bar>
        ))}
        {data.totals.retries > 0 && (
          <Line
            dataKey="retries"
            stroke="var(--ink)"
            strokeWidth={1.25}
            dot={false}
            activeDot={false}
            isAnimationActive={false}
          />
        )}
        {data.totals.hedges > 0 && (
          <Line
            dataKey="hedges"
            stroke="var(--ink-3)"
            strokeWidth={1.25}
            strokeDasharray="2 3"
            dot={false}
            activeDot={false}
            isAnimationActive={false}
          />
        )}
      </ComposedChart>
    </ResponsiveContainer>
  )
}
