'use client'

import { Area, Bar, Cell, Line, ReferenceLine } from 'recharts'
import { durationText, formatCount } from '../format/numbers.ts'
import type { CompletionChartData } from './completion.prepare.ts'
import type { DistributionChartData, DistributionRow } from './distribution.prepare.ts'
import { Plot } from './plot.tsx'
import { Tip } from './tip.tsx'

export function DistributionPlot({
  data,
  title,
  label,
  fill = 'var(--data-1)',
  axisWidth = 44,
  onRow,
}: {
  data: DistributionChartData
  /** The accessible description. */
  title: string
  label: string
  fill?: string | ((row: DistributionRow) => string)
  axisWidth?: number
  onRow?(row: DistributionRow): void
}) {
  const isBars = data.kind === 'bars'
  return (
    <Plot
      data={data.rows}
      title={title}
      x={{ dataKey: 'tick', minTickGap: 28 }}
      y={{ ticks: data.ticks, width: axisWidth }}
      barGap={isBars ? '32%' : 1}
      barSize={isBars ? 72 : 60}
      {...(onRow && { onPick: onRow })}
      tip={(row: DistributionRow) => (
        <Tip
          title={`${label} ${row.label}`}
          rows={[
            { label: 'Samples', value: formatCount(row.count) },
            { label: 'Share', value: row.share },
          ]}
        />
      )}
    >
      <Bar
        dataKey="height"
        isAnimationActive={false}
        radius={[2, 2, 0, 0]}
        {...(typeof fill === 'string' && { fill })}
      >
        {typeof fill !== 'string' &&
          data.rows.map((row) => <Cell key={row.from} fill={fill(row)} />)}
      </Bar>
    </Plot>
  )
}

export function CompletionPlot({ data, total }: { data: CompletionChartData; total: number }) {
  return (
    <Plot
      title={`Completed groups over time, ${formatCount(total)} in total`}
      x={{ dataKey: 'ms', type: 'number', domain: [0, data.endMs], ticks: data.ticks }}
      y={{ ticks: data.countTicks, domain: [0, Math.max(total, 1)], width: 44 }}
      tip={(point: { ms: number; groups: number }) => (
        <Tip
          title={`After ${durationText(point.ms)}`}
          rows={[
            {
              label: 'Groups completed',
              value: `${formatCount(point.groups)} of ${formatCount(total)}`,
            },
          ]}
        />
      )}
    >
      {data.halfMs !== null && (
        <ReferenceLine x={data.halfMs} stroke="var(--ink-3)" strokeDasharray="2 3" />
      )}
      <Area
        data={data.points}
        dataKey="groups"
        type="stepAfter"
        stroke="var(--data-3)"
        strokeWidth={1.75}
        fill="var(--data-3)"
        fillOpacity={0.12}
        isAnimationActive={false}
        activeDot={{ r: 3 }}
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
    </Plot>
  )
}
