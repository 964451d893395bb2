'use client'

import { ReferenceDot } from 'recharts'
import { formatCount, formatScore, percentText } from '../format/numbers.ts'
import {
  type KData,
  PASS_LEVELS,
  type PassData,
  type VisitData,
  type VisitStep,
} from './prompt-steps.prepare.ts'
import { kColor, PASS_COLOR, PASS_LABEL } from './prompt-words.ts'
import { StepArea, StepBand, StepLine, StepPlot } from './step-plot.tsx'
import { shareTicks } from './ticks.ts'

type OnStep = (step: { batchId: string | null }) => void
type OnRange = (from: number, to: number) => void

export function PassSharesPlot({
  data,
  onStep,
  onRange,
}: {
  data: PassData
  onStep: OnStep
  onRange: OnRange
}) {
  return (
    <StepPlot
      data={data.steps}
      title={`Groups by pass rate over ${formatCount(data.steps.length)} steps`}
      stepTicks={data.stepTicks}
      valueTicks={shareTicks(1)}
      axisWidth={48}
      onStep={onStep}
      onRange={onRange}
      tip={(step) =>
        step.groups > 0
          ? [
              ...PASS_LEVELS.toReversed().map((level) => ({
                label: PASS_LABEL[level],
                value: percentText(step[level]),
                color: PASS_COLOR[level],
              })),
              { label: 'Groups', value: formatCount(step.groups) },
            ]
          : null
      }
    >
      {PASS_LEVELS.map((level) => (
        <StepArea key={level} dataKey={level} color={PASS_COLOR[level]} />
      ))}
    </StepPlot>
  )
}

export function ByKPlot({
  data,
  title,
  isShare,
  onStep,
  onRange,
}: {
  data: KData
  title: string
  isShare: boolean
  onStep: OnStep
  onRange: OnRange
}) {
  const text = isShare ? percentText : formatScore
  return (
    <StepPlot
      data={data.steps}
      title={`${title} over ${formatCount(data.steps.length)} steps`}
      stepTicks={data.stepTicks}
      valueTicks={data.valueTicks}
      axisWidth={48}
      onStep={onStep}
      onRange={onRange}
      tip={(step) =>
        step.batchId === null
          ? null
          : [
              ...data.ks.toReversed().map((k) => ({
                label: `k = ${k}`,
                value: text(step[`k:${k}`] ?? null),
                color: kColor(data.ks, k),
              })),
              { label: 'Groups', value: formatCount(step.groups) },
            ]
      }
    >
      {data.ks.map((k) => (
        <StepLine
          key={k}
          dataKey={`k:${k}`}
          color={kColor(data.ks, k)}
          points={data.steps.length}
        />
      ))}
    </StepPlot>
  )
}

/**
 * The rate of a prompt at each visit (group of the prompt), with the 95 % confidence interval. Large dots with a ring
 * mark the visits whose responses are shown.
 */
export function VisitsPlot({
  data,
  shown,
  onVisit,
}: {
  data: VisitData
  shown: readonly number[]
  onVisit(visit: VisitStep): void
}) {
  const text = data.passRates ? percentText : formatScore
  return (
    <StepPlot
      data={data.steps}
      title={`${data.passRates ? 'Pass rate' : 'Mean score'} of ${formatCount(data.steps.length)} visits`}
      stepTicks={data.stepTicks}
      valueTicks={data.valueTicks}
      axisWidth={48}
      sync="prompt-visits"
      onStep={onVisit}
      tip={({ rate, interval, n }) => [
        {
          label: data.passRates ? 'Pass rate' : 'Mean score',
          value: text(rate),
          color: 'var(--data-1)',
        },
        ...(interval === null
          ? []
          : [{ label: '95 % CI', value: `${text(interval[0])} to ${text(interval[1])}` }]),
        { label: 'n', value: formatCount(n) },
      ]}
    >
      <StepBand dataKey="interval" color="var(--data-1)" opacity={0.16} />
      <StepLine dataKey="rate" color="var(--data-1)" points={data.steps.length} width={2} />
      {data.steps
        .filter(({ at }) => at !== null && shown.includes(at))
        .map(({ step, at, rate }) => (
          <ReferenceDot
            key={at}
            x={step}
            y={rate as number}
            r={4.5}
            ifOverflow="visible"
            fill="var(--accent)"
            stroke="var(--accent)"
            strokeWidth={7}
            strokeOpacity={0.3}
          />
        ))}
    </StepPlot>
  )
}
