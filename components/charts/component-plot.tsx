'use client'

import {
  Area,
  ComposedChart,
  Line,
  ReferenceLine,
  ResponsiveContainer,
  Tooltip,
  XAxis,
  YAxis,
} from 'recharts'
import { formatCount, formatScore } from '../format/numbers.ts'
import type { ComponentData, ComponentStep } from './components.prepare.ts'
import { AXIS, GRID, labelOf, MARGIN, TICK } from './plot-parts.tsx'
import { Tip } from './tip.tsx'

/** The components of a run share their cursor: the same step is marked in all. */
const SYNC = 'components'

/** The mean of a component over the steps, in a band of one deviation. */
export function ComponentPlot({ data, color }: { data: ComponentData; color: string }) {
  const [low, high] = [data.valueTicks[0]?.at ?? 0, data.valueTicks.at(-1)?.at ?? 1]
  return (
    <ResponsiveContainer width="100%" height="100%">
      <ComposedChart
        data={data.steps}
        margin={{ ...MARGIN, right: 10 }}
        syncId={SYNC}
        title={`Mean of ${data.name || 'the reward'} over ${formatCount(data.steps.length)} steps`}
      >
        {GRID}
        <XAxis
          dataKey="step"
          type="number"
          domain={['dataMin', 'dataMax']}
          tick={TICK}
          axisLine={AXIS}
          tickLine={false}
          ticks={data.stepTicks}
          tickFormatter={formatCount}
        />
        <YAxis
          width={44}
          tick={TICK}
          axisLine={false}
          tickLine={false}
          domain={[low, high]}
          ticks={data.valueTicks.map((tick) => tick.at)}
          tickFormatter={labelOf(data.valueTicks)}
        />
        {low < 0 && high > 0 && <ReferenceLine y={0} stroke="var(--line-strong)" />}
        <Tooltip
          cursor={{ stroke: 'var(--ink-3)' }}
          isAnimationActive={false}
          content={({ active, payload }) => {
            const step = payload?.[0]?.payload as ComponentStep | undefined
            return active && step && step.mean !== null ? (
              <Tip
                title={`step ${formatCount(step.step)}`}
                rows={[
                  { label: 'mean', value: formatScore(step.mean), color },
                  { label: 'deviation', value: formatScore(step.std) },
                  { label: 'n', value: formatCount(step.n) },
                ]}
              />
            ) : null
          }}
        />
        <Area
          dataKey="band"
          stroke="none"
          fill={color}
          fillOpacity={0.16}
          activeDot={false}
          isAnimationActive={false}
        />
        <Line
          dataKey="mean"
          stroke={color}
          strokeWidth={1.75}
          dot={data.steps.length > 40 ? false : { r: 2, fill: color, strokeWidth: 0 }}
          activeDot={{ r: 3 }}
          isAnimationActive={false}
        />
      </ComposedChart>
    </ResponsiveContainer>
  )
}
