'use client'

import { ReferenceLine } from 'recharts'
import { formatCount } from '../format/numbers.ts'
import type { MonitorData } from './monitor.prepare.ts'
import { StepLine } from './step-marks.tsx'
import { StepPlot } from './step-plot.tsx'
import { Tip } from './tip.tsx'

/** A monitor over the steps of a run, with its thresholds. */
export function MonitorPlot({
  data,
  label,
  countedUnit,
  text,
}: {
  data: MonitorData
  label: string
  /** The unit of n. */
  countedUnit: string
  /** Formats a value. */
  text(value: number | null): string
}) {
  return (
    <StepPlot
      data={data.steps}
      title={`${label} over ${formatCount(data.n)} steps`}
      stepTicks={data.stepTicks}
      valueTicks={data.valueTicks}
      tip={(step) =>
        step.value === null ? null : (
          <Tip
            title={`step ${formatCount(step.step)}`}
            rows={[
              { label: label.toLowerCase(), value: text(step.value), color: 'var(--data-1)' },
              ...(step.detail === null ? [] : [{ label: step.detail, value: '' }]),
              { label: countedUnit, value: formatCount(step.n) },
            ]}
          />
        )
      }
    >
      {data.thresholds.map(({ at, severity }) => (
        <ReferenceLine
          key={`${severity} ${at}`}
          y={at}
          stroke={severity === 'alerting' ? 'var(--bad)' : 'var(--warn)'}
          strokeDasharray={severity === 'alerting' ? '6 3' : '3 3'}
          strokeWidth={1.25}
        />
      ))}
      <StepLine dataKey="value" color="var(--data-1)" points={data.n} />
    </StepPlot>
  )
}
