'use client'

import { Area, Line, ReferenceLine } from 'recharts'
import { SIGNAL_COLOR, SIGNAL_LABEL } from '../batches/group-signal-text.ts'
import { durationText, formatCount, formatScore, percentText } from '../format/numbers.ts'
import { capitalized } from '../format/text.ts'
import type { ComponentData, ContributionData } from './components.prepare.ts'
import { hueOf, outcomeColors } from './hue.ts'
import type { MonitorData } from './monitor.prepare.ts'
import type {
  FanData,
  FanStep,
  OutcomeData,
  ShareStep,
  SharesData,
  SourceData,
  SourcesData,
  WaitData,
} from './run.prepare.ts'
import { StepArea, StepBand, StepLine, StepPlot } from './step-plot.tsx'
import { shareTicks } from './ticks.ts'
import type { TipRow } from './tip.tsx'

export function FanPlot({
  data,
  name,
  range,
  onStep,
}: {
  data: FanData
  name: string
  /** Whether the range from the minimum to the maximum score is drawn too. */
  range: boolean
  onStep(step: FanStep): void
}) {
  const color = hueOf('run', name)
  const isSmoothed = data.steps.some(({ smooth }) => smooth !== null)
  const isBinned = data.perPoint > 1
  return (
    <StepPlot
      data={data.steps}
      title={`Reward over ${formatCount(data.points)} ${isBinned ? 'bins of steps' : 'steps'}`}
      stepTicks={data.stepTicks}
      valueTicks={data.valueTicks}
      labels
      tip={(step) => fanTip(step, data, color)}
      onStep={(step) => step.batchId && onStep(step)}
    >
      {data.isFewValued ? (
        <StepBand dataKey="interval" color={color} opacity={0.2} />
      ) : (
        <>
          {range && <StepBand dataKey="all" color={color} opacity={0.07} />}
          <StepBand dataKey="most" color={color} opacity={0.14} />
          <StepBand dataKey="middle" color={color} opacity={0.22} />
          <Line
            dataKey="median"
            stroke={color}
            strokeWidth={1}
            strokeDasharray="4 3"
            dot={false}
            activeDot={false}
            isAnimationActive={false}
          />
        </>
      )}
      {isBinned && <StepBand dataKey="means" color={color} opacity={0.3} />}
      <StepLine
        dataKey="mean"
        color={color}
        points={data.points}
        width={isSmoothed ? 1 : 2}
        opacity={isSmoothed ? 0.4 : 1}
      />
      {isSmoothed && <StepLine dataKey="smooth" color={color} width={2} joined />}
      <Line
        dataKey="running"
        stroke="none"
        dot={{ r: 3, fill: 'var(--surface)', stroke: color, strokeOpacity: 0.6 }}
        activeDot={false}
        isAnimationActive={false}
      />
      {data.overlays.map((other) => (
        <StepLine key={other} dataKey={`run:${other}`} color={hueOf('run', other)} joined />
      ))}
    </StepPlot>
  )
}

function fanTip(step: FanStep, data: FanData, color: string): TipRow[] {
  const range = (pair: readonly number[] | null) =>
    pair === null ? '–' : `${formatScore(pair[0])} to ${formatScore(pair[1])}`
  const own = step.other
    ? []
    : step.mean !== null
      ? [
          { label: 'Mean', value: formatScore(step.mean), color },
          ...(step.means === null ? [] : [{ label: 'Step means', value: range(step.means) }]),
          ...(step.smooth === null ? [] : [{ label: 'Smoothed', value: formatScore(step.smooth) }]),
          ...(data.isFewValued
            ? [{ label: '95 % CI of mean', value: range(step.interval) }]
            : [
                { label: 'Median', value: formatScore(step.median) },
                { label: '25th–75th percentile', value: range(step.middle) },
                { label: '5th–95th percentile', value: range(step.most) },
              ]),
          { label: 'Min to max', value: range(step.all) },
          { label: 'n', value: formatCount(step.n) },
        ]
      : step.running !== null
        ? [{ label: 'Mean so far', value: formatScore(step.running), color }]
        : []
  const others = data.overlays.flatMap((name) => {
    const mean = step[`run:${name}`]
    return mean === null || mean === undefined
      ? []
      : [{ label: name, value: formatScore(mean), color: hueOf('run', name) }]
  })
  return [...own, ...others]
}

export function SignalsPlot({
  data,
  onStep,
}: {
  data: SharesData
  onStep(step: { step: number }): void
}) {
  return (
    <StepPlot
      data={data.steps}
      onStep={onStep}
      title={`No-signal groups over ${formatCount(data.steps.length)} steps`}
      stepTicks={data.stepTicks}
      valueTicks={data.signalTicks}
      tip={(step) =>
        step.groups > 0
          ? [
              ...data.signals.map((signal) => ({
                label: SIGNAL_LABEL[signal],
                value: percentText(step[signal]),
                color: SIGNAL_COLOR[signal],
              })),
              { label: 'Groups', value: formatCount(step.groups) },
            ]
          : null
      }
    >
      {data.signals.map((signal) => (
        <StepArea key={signal} dataKey={signal} color={SIGNAL_COLOR[signal]} />
      ))}
    </StepPlot>
  )
}

export function OutcomesPlot({
  data,
  onStep,
}: {
  data: OutcomeData
  onStep(step: { step: number }): void
}) {
  const colors = outcomeColors(data.outcomes)
  return (
    <StepPlot
      data={data.steps}
      title={`Outcomes over ${formatCount(data.steps.length)} steps`}
      stepTicks={data.stepTicks}
      valueTicks={shareTicks(1)}
      onStep={onStep}
      axisWidth={48}
      tip={(step) =>
        step.n > 0
          ? [
              ...data.outcomes.map(({ name, label }, at) => ({
                label,
                value: percentText(step[`outcome:${name}`] ?? null),
                color: colors[at] as string,
              })),
              { label: 'Samples', value: formatCount(step.n) },
            ]
          : null
      }
    >
      {data.outcomes.map(({ name }, at) => (
        <StepArea key={name} dataKey={`outcome:${name}`} color={colors[at] as string} />
      ))}
    </StepPlot>
  )
}

export function FailuresPlot({
  data,
  onStep,
}: {
  data: SharesData
  onStep(step: { step: number }): void
}) {
  return (
    <StepPlot
      data={data.steps}
      title={`Failed samples over ${formatCount(data.steps.length)} steps`}
      stepTicks={data.stepTicks}
      valueTicks={data.failedTicks}
      onStep={onStep}
      axisWidth={48}
      tip={failuresTip}
    >
      {data.steps.some(({ failures }) => failures !== null) && (
        <StepBand dataKey="failures" color="var(--bad)" opacity={0.2} />
      )}
      <Area
        dataKey="failed"
        stroke="var(--bad)"
        strokeWidth={1.5}
        fill="var(--bad)"
        fillOpacity={0.14}
        activeDot={{ r: 3 }}
        isAnimationActive={false}
      />
    </StepPlot>
  )
}

export function failuresTip({ failed, failures }: ShareStep): TipRow[] | null {
  if (failed === null) return null
  return [
    { label: 'Failed', value: percentText(failed), color: 'var(--bad)' },
    ...(failures === null
      ? []
      : [{ label: 'Range over steps', value: failures.map(percentText).join(' to ') }]),
  ]
}

export function WaitsPlot({ data, log }: { data: WaitData; log: boolean }) {
  return (
    <StepPlot
      data={data.steps}
      title={`Reward wait and step time over ${formatCount(data.steps.length)} steps`}
      stepTicks={data.stepTicks}
      valueTicks={data.ticks}
      isLog={log}
      axisWidth={64}
      tip={(step) =>
        step.waitMs !== null || step.stepMs !== null
          ? [
              {
                label: 'Reward wait',
                value: durationText(step.waitMs),
                color: 'var(--data-2)',
              },
              ...(step.waits === null
                ? []
                : [
                    { label: 'Range over steps', value: step.waits.map(durationText).join(' to ') },
                  ]),
              { label: 'Step time', value: durationText(step.stepMs) },
            ]
          : null
      }
    >
      {data.steps.some(({ waits }) => waits !== null) && (
        <StepBand dataKey="waits" color="var(--data-2)" opacity={0.2} />
      )}
      <Line
        dataKey="stepMs"
        stroke="var(--ink-3)"
        strokeWidth={1.25}
        dot={false}
        activeDot={{ r: 3 }}
        isAnimationActive={false}
      />
      <Area
        dataKey="waitMs"
        stroke="var(--data-2)"
        strokeWidth={1.75}
        fill="var(--data-2)"
        fillOpacity={0.14}
        activeDot={{ r: 3 }}
        isAnimationActive={false}
      />
    </StepPlot>
  )
}

export function SourcePlot({
  data,
  of,
  onStep,
}: {
  data: SourceData
  of: SourcesData
  onStep(step: { step: number }): void
}) {
  const color = hueOf('source', data.name)
  return (
    <StepPlot
      data={data.steps}
      title={`Mean reward of ${data.name}`}
      onStep={onStep}
      stepTicks={of.stepTicks}
      valueTicks={of.valueTicks}
      tip={(step) =>
        step.mean !== null
          ? [
              { label: 'Mean', value: formatScore(step.mean), color },
              ...(step.middle === null
                ? []
                : [
                    {
                      label: '25th–75th percentile',
                      value: `${formatScore(step.middle[0])} to ${formatScore(step.middle[1])}`,
                    },
                  ]),
              { label: 'n', value: formatCount(step.n) },
            ]
          : null
      }
    >
      {of.hasBands && <StepBand dataKey="middle" color={color} opacity={0.16} />}
      <StepLine dataKey="mean" color={color} />
    </StepPlot>
  )
}

export function ComponentPlot({ data, color }: { data: ComponentData; color: string }) {
  const [low, high] = [data.valueTicks[0]?.at ?? 0, data.valueTicks.at(-1)?.at ?? 1]
  return (
    <StepPlot
      data={data.steps}
      title={`Mean of ${data.name || 'the reward'} over ${formatCount(data.steps.length)} steps`}
      stepTicks={data.stepTicks}
      valueTicks={data.valueTicks}
      tip={(step) =>
        step.mean !== null
          ? [
              { label: 'Mean', value: formatScore(step.mean), color },
              { label: 'Std', value: formatScore(step.std) },
              { label: 'n', value: formatCount(step.n) },
            ]
          : null
      }
    >
      {low < 0 && high > 0 && <ReferenceLine y={0} stroke="var(--line-strong)" />}
      <StepBand dataKey="band" color={color} opacity={0.16} />
      <StepLine dataKey="mean" color={color} points={data.steps.length} />
    </StepPlot>
  )
}

export function ContributionsPlot({ data }: { data: ContributionData }) {
  return (
    <StepPlot
      data={data.steps}
      title={`Component contributions over ${formatCount(data.steps.length)} steps`}
      stepTicks={data.stepTicks}
      valueTicks={data.valueTicks}
      tip={(step) =>
        step.sum === null
          ? null
          : [
              ...data.names.map((name) => ({
                label: name,
                value: formatScore(step[`part:${name}`]),
                color: hueOf('component', name),
              })),
              { label: 'Sum', value: formatScore(step.sum) },
            ]
      }
    >
      <ReferenceLine y={0} stroke="var(--line-strong)" />
      {data.names.map((name) => (
        <StepArea key={name} dataKey={`part:${name}`} color={hueOf('component', name)} stepped />
      ))}
      <StepLine dataKey="sum" color="var(--ink)" points={data.steps.length} width={1.5} stepped />
    </StepPlot>
  )
}

export function MonitorPlot({
  data,
  label,
  countedUnit,
  text,
}: {
  data: MonitorData
  label: string
  countedUnit: string
  text(value: number | null): string
}) {
  return (
    <StepPlot
      data={data.steps}
      title={`${label} over ${formatCount(data.n)} steps`}
      stepTicks={data.stepTicks}
      valueTicks={data.valueTicks}
      tip={(step) =>
        step.value === null
          ? null
          : [
              { label, value: text(step.value), color: 'var(--data-1)' },
              ...(step.detail === null ? [] : [{ label: step.detail, value: '' }]),
              { label: capitalized(countedUnit), value: formatCount(step.n) },
            ]
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
