'use client'

import { Area, Line, ReferenceLine } from 'recharts'
import { formatCount, formatScore } from '../format/numbers.ts'
import type { ComponentData } from './components.prepare.ts'
import { StepPlot } from './step-plot.tsx'
import { Tip } from './tip.tsx'

/** The mean of a component over the steps, in a band of one deviation. */
export function ComponentPlot({ data, color }: { data: ComponentData; color: string }) {
  const [low, high] = [data.valueTicks[0]?.at ?? 0, data.valueTicks.at(-1)?.at ?? 1]
  return (
    <StepPlot
      data={data.steps}
      title={`Mean of ${data.name || 'the reward'} over ${formatCount(data.steps.length)} steps`}
      stepTicks={data.stepTicks}
      valueTicks={data.valueTicks}
      tip={(step) =>
        step.mean !== null ? (
          <Tip
            title={`step ${formatCount(step.step)}`}
            rows={[
              { label: 'mean', value: formatScore(step.mean), color },
              { label: 'deviation', value: formatScore(step.std) },
              { label: 'n', value: formatCount(step.n) },
            ]}
          />
        ) : null
      }
    >
      {low < 0 && high > 0 && <ReferenceLine y={0} stroke="var(--line-strong)" />}
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
    </StepPlot>
  )
}
