'use client'

import { Line, ReferenceLine } from 'recharts'
import { formatCount, formatScore, percentText } from '../format/numbers.ts'
import type { CdfData, DeltaData, OverlayData, OverlayStep } from './compare.prepare.ts'
import { Plot } from './plot.tsx'
import { StepBand, StepLine, StepPlot } from './step-plot.tsx'
import { Tip } from './tip.tsx'

const SYNC = 'compared-steps'
const FIRST = 'var(--data-1)'
const SECOND = 'var(--data-2)'

const SHARE_TICKS = [0, 0.25, 0.5, 0.75, 1].map((at) => ({ at, label: `${at * 100} %` }))

export function CdfPlot({ data, n }: { data: CdfData; n: number }) {
  const line = {
    type: 'stepAfter',
    strokeWidth: 1.75,
    dot: false,
    isAnimationActive: false,
  } as const
  return (
    <Plot
      data={data.points}
      title={`Cumulative score distribution of ${formatCount(n)} samples`}
      x={{ dataKey: 'value', type: 'number', ticks: data.valueTicks }}
      y={{ ticks: SHARE_TICKS, width: 48 }}
      right={12}
      tip={(at: CdfData['points'][number]) => (
        <Tip
          title={`At most ${formatScore(at.value)}`}
          rows={[
            { label: 'First', value: percentText(at.first), color: FIRST },
            { label: 'Second', value: percentText(at.second), color: SECOND },
          ]}
        />
      )}
    >
      <Line {...line} dataKey="first" stroke={FIRST} activeDot={{ r: 3 }} />
      <Line {...line} dataKey="second" stroke={SECOND} activeDot={{ r: 3 }} />
    </Plot>
  )
}

interface OverlaySeries {
  name: string
  color: string
  isHidden: boolean
}

export function OverlayPlot({
  data,
  series,
  title,
  write,
  hasBand,
  log = false,
}: {
  data: OverlayData
  series: readonly OverlaySeries[]
  title: string
  write(value: number): string
  hasBand?: boolean
  log?: boolean
}) {
  const tip = (step: OverlayStep) => {
    const rows = series.flatMap(({ name, color, isHidden }, at) => {
      const value = step[`v${at}`]
      return isHidden || value === null || value === undefined
        ? []
        : [{ label: name, value: write(value), color }]
    })
    return rows
  }
  return (
    <StepPlot
      data={data.steps}
      title={title}
      stepTicks={data.stepTicks}
      valueTicks={data.ticks}
      isLog={log}
      axisWidth={56}
      sync={SYNC}
      tip={tip}
    >
      {hasBand &&
        series.map(({ name, color, isHidden }, at) => (
          <StepBand
            key={`band ${name}`}
            dataKey={`b${at}`}
            color={color}
            opacity={0.13}
            hide={isHidden}
          />
        ))}
      {series.map(({ name, color, isHidden }, at) => (
        <StepLine
          key={name}
          dataKey={`v${at}`}
          color={color}
          points={data.steps.length}
          hide={isHidden}
        />
      ))}
    </StepPlot>
  )
}

export function StepDeltaPlot({
  data,
  color,
  title,
}: {
  data: DeltaData
  color: string
  title: string
}) {
  return (
    <StepPlot
      data={data.steps}
      title={title}
      stepTicks={data.stepTicks}
      valueTicks={data.ticks}
      axisWidth={56}
      sync={SYNC}
      tip={(step) =>
        step.delta !== null && step.interval !== null
          ? [
              { label: 'Difference', value: formatScore(step.delta), color },
              {
                label: '95 % CI',
                value: `${formatScore(step.interval[0])} to ${formatScore(step.interval[1])}`,
              },
              { label: 'n', value: step.n },
            ]
          : null
      }
    >
      <ReferenceLine y={0} stroke="var(--ink-3)" strokeDasharray="3 3" />
      <StepBand dataKey="interval" color={color} opacity={0.18} />
      <StepLine dataKey="delta" color={color} points={data.steps.length} />
    </StepPlot>
  )
}
