'use client'

import { useMemo, useState } from 'react'
import {
  Area,
  Bar,
  BarChart,
  Cell,
  ComposedChart,
  Line,
  ReferenceLine,
  ResponsiveContainer,
  Tooltip,
  XAxis,
  YAxis,
} from 'recharts'
import { durationText, formatCount } from '../format/numbers.ts'
import type { CompletionChartData } from './completion.prepare.ts'
import type { DistributionChartData } from './distribution.prepare.ts'
import { AXIS, CURSOR, GRID, labelOf, MARGIN, TICK } from './plot-parts.tsx'
import { Tip } from './tip.tsx'

/**
 * The rendering half of the charts. Only this file imports Recharts, and it is loaded after the page; all data
 * preparation is in the prepare files.
 */

const TOP_CORNERS: [number, number, number, number] = [2, 2, 0, 0]
const POINTED = { r: 3 }

/** Returns the previous list while its contents are equal: live data are new objects on every read. */
function useKept<T>(list: readonly T[]): readonly T[] {
  const [kept, setKept] = useState(list)
  if (kept === list || JSON.stringify(kept) === JSON.stringify(list)) return kept
  setKept(list)
  return list
}

/** The count axis from 0 to `top`, memoized by content. `width` in px. */
function useCountAxis(ticks: DistributionChartData['ticks'], top: number, width = 44) {
  const kept = useKept(ticks)
  return useMemo(
    () => (
      <YAxis
        width={width}
        tick={TICK}
        axisLine={false}
        tickLine={false}
        domain={[0, top]}
        ticks={kept.map((tick) => tick.at)}
        tickFormatter={labelOf(kept)}
      />
    ),
    [kept, top, width],
  )
}

/** A distribution of values over samples: bars for few distinct values, otherwise a histogram. */
export function DistributionPlot({
  data,
  title,
  label,
  fill = 'var(--data-1)',
  axisWidth,
}: {
  data: DistributionChartData
  /** The accessible description. */
  title: string
  /** The name of a value, before its number in the tooltip. */
  label: string
  /** The color of all bars, or of each. */
  fill?: string | ((row: DistributionChartData['rows'][number]) => string)
  /** The width of the count axis, px. */
  axisWidth?: number
}) {
  const { kind, edgeDigits } = data
  const countAxis = useCountAxis(data.ticks, data.ticks.at(-1)?.at ?? 1, axisWidth)
  // Identical elements are not rendered again; each new one costs Recharts a pass over the whole chart.
  const valueAxis = useMemo(
    () => (
      <XAxis
        dataKey={kind === 'bars' ? 'label' : 'from'}
        tick={TICK}
        axisLine={AXIS}
        tickLine={false}
        minTickGap={28}
        {...(kind === 'bars'
          ? {}
          : { tickFormatter: (from: number) => from.toFixed(edgeDigits).replace('-', '−') })}
      />
    ),
    [kind, edgeDigits],
  )
  const tooltip = useMemo(
    () => (
      <Tooltip
        cursor={CURSOR}
        isAnimationActive={false}
        content={({ active, payload }) => {
          const row = payload?.[0]?.payload as DistributionChartData['rows'][number] | undefined
          return active && row ? (
            <Tip
              title={`${label} ${row.label}`}
              rows={[
                { label: 'samples', value: formatCount(row.count) },
                { label: 'share', value: row.share },
              ]}
            />
          ) : null
        }}
      />
    ),
    [label],
  )
  return (
    <ResponsiveContainer width="100%" height="100%">
      <BarChart
        data={data.rows}
        margin={MARGIN}
        barCategoryGap={kind === 'bars' ? '32%' : 1}
        maxBarSize={kind === 'bars' ? 72 : 60}
        title={title}
      >
        {GRID}
        {valueAxis}
        {countAxis}
        {tooltip}
        {typeof fill === 'string' ? (
          <Bar dataKey="height" fill={fill} isAnimationActive={false} radius={TOP_CORNERS} />
        ) : (
          <Bar dataKey="height" isAnimationActive={false} radius={TOP_CORNERS}>
            {data.rows.map((row) => (
              <Cell key={row.from} fill={fill(row)} />
            ))}
          </Bar>
        )}
      </BarChart>
    </ResponsiveContainer>
  )
}

/** Completed groups over the time since acceptance. */
export function CompletionPlot({ data, total }: { data: CompletionChartData; total: number }) {
  const times = useKept(data.ticks)
  const countAxis = useCountAxis(data.countTicks, Math.max(total, 1))
  const timeAxis = useMemo(
    () => (
      <XAxis
        dataKey="ms"
        type="number"
        domain={[0, data.endMs]}
        ticks={times.map((tick) => tick.at)}
        tickFormatter={labelOf(times)}
        tick={TICK}
        axisLine={AXIS}
        tickLine={false}
      />
    ),
    [data.endMs, times],
  )
  const tooltip = useMemo(
    () => (
      <Tooltip
        isAnimationActive={false}
        cursor={{ stroke: 'var(--ink-3)' }}
        content={({ active, payload }) => {
          const point = payload?.[0]?.payload as { ms: number; groups: number } | undefined
          return active && point ? (
            <Tip
              title={`after ${durationText(point.ms)}`}
              rows={[
                {
                  label: 'groups completed',
                  value: `${formatCount(point.groups)} of ${formatCount(total)}`,
                },
              ]}
            />
          ) : null
        }}
      />
    ),
    [total],
  )
  return (
    <ResponsiveContainer width="100%" height="100%">
      <ComposedChart
        margin={MARGIN}
        title={`Completed groups over time, ${formatCount(total)} in total`}
      >
        {GRID}
        {timeAxis}
        {countAxis}
        {data.halfMs !== null && (
          <ReferenceLine x={data.halfMs} stroke="var(--ink-3)" strokeDasharray="2 3" />
        )}
        {tooltip}
        <Area
          data={data.points}
          dataKey="groups"
          type="stepAfter"
          stroke="var(--data-3)"
          strokeWidth={1.75}
          fill="var(--data-3)"
          fillOpacity={0.12}
          isAnimationActive={false}
          activeDot={POINTED}
        />
        {data.waiting.length > 0 && (
          <Line
            data={data.waiting}
            dataKey="groups"
            stroke="var(--data-3)"
            strokeOpacity={0.45}
            strokeDasharray="2 4"
            dot={false}
            activeDot={false}
            isAnimationActive={false}
          />
        )}
      </ComposedChart>
    </ResponsiveContainer>
  )
}
