'use client'

import { ReferenceLine } from 'recharts'
import { formatCount, formatScore } from '../format/numbers.ts'
import type { ComponentData } from './components.prepare.ts'
import { StepBand, StepLine } from './step-marks.tsx'
import { StepPlot } from './step-plot.tsx'
import { Tip } from './tip.tsx'

/** The mean of a component over steps, in a band of one standard deviation. */
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
              { label: 'std', value: formatScore(step.std) },
              { label: 'n', value: formatCount(step.n) },
            ]}
          />
        ) : null
      }
    >
      {low < 0 && high > 0 && <ReferenceLine y={0} stroke="var(--line-strong)" />}
      <StepBand dataKey="band" color={color} opacity={0.16} />
      <StepLine dataKey="mean" color={color} points={data.steps.length} />
    </StepPlot>
  )
}
