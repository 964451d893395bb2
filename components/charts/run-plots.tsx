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
import { SIGNAL_COLOUR, SIGNAL_LABEL } from '../batches/group-signal-text.ts'
import {
  durationText,
  formatCount,
  formatPercent,
  formatScore,
  quantityText,
} from '../format/numbers.ts'
import { hueOf } from './hue.ts'
import { AXIS, GRID, labelOf, MARGIN, TICK } from './plot-parts.tsx'
import type {
  FanData,
  FanStep,
  ShareStep,
  SharesData,
  SourceData,
  SourcesData,
  WaitData,
  WaitStep,
} from './run.prepare.ts'
import { Tip } from './tip.tsx'

/** The charts of a run share their cursor: the same step is marked in all. */
const SYNC = 'run-steps'
const STEPS_MARGIN = { ...MARGIN, right: 12 }

type Ticks = readonly { at: number; label: string }[]

const percentText = (share: number | null) => quantityText(formatPercent(share))

function stepAxis(ticks: readonly number[]) {
  return (
    <XAxis
      dataKey="step"
      type="number"
      domain={['dataMin', 'dataMax']}
      tick={TICK}
      axisLine={AXIS}
      tickLine={false}
      ticks={[...ticks]}
      tickFormatter={formatCount}
    />
  )
}

function valueAxis(ticks: Ticks, width = 44) {
  return (
    <YAxis
      width={width}
      tick={TICK}
      axisLine={false}
      tickLine={false}
      domain={[ticks[0]?.at ?? 0, ticks.at(-1)?.at ?? 1]}
      ticks={ticks.map((tick) => tick.at)}
      tickFormatter={labelOf(ticks)}
      interval={0}
      allowDataOverflow
    />
  )
}

/** Rewards over the steps: 5 to 95 % and 25 to 75 % as bands, median and mean as lines; a batch that runs is paler. */
export function FanPlot({
  data,
  name,
  range,
  onStep,
}: {
  data: FanData
  name: string
  /** Draws from the least to the greatest score, too. */
  range: boolean
  onStep(step: FanStep): void
}) {
  const color = hueOf('run', name)
  const single = data.steps.filter(({ mean }) => mean !== null).length <= 40
  return (
    <ResponsiveContainer width="100%" height="100%">
      <ComposedChart
        data={data.steps}
        margin={STEPS_MARGIN}
        syncId={SYNC}
        syncMethod="value"
        title={`Reward over ${formatCount(data.steps.length)} steps`}
        className="cursor-pointer"
        onClick={({ activeLabel }) => {
          const step = data.steps.find((one) => one.step === Number(activeLabel))
          if (step?.batchId) onStep(step)
        }}
      >
        {GRID}
        {stepAxis(data.stepTicks)}
        {valueAxis(data.valueTicks)}
        {data.marks.map((mark) => (
          <ReferenceLine
            key={mark.step}
            x={mark.step}
            stroke="var(--ink-2)"
            strokeDasharray="2 3"
            label={{ value: '◆', position: 'insideTop', fill: 'var(--ink-2)', fontSize: 10 }}
          />
        ))}
        <Tooltip
          cursor={{ stroke: 'var(--ink-3)' }}
          isAnimationActive={false}
          content={({ active, payload }) => {
            const step = payload?.[0]?.payload as FanStep | undefined
            return active && step ? <FanTip step={step} data={data} color={color} /> : null
          }}
        />
        {range && (
          <Area
            dataKey="all"
            stroke="none"
            fill={color}
            fillOpacity={0.07}
            activeDot={false}
            isAnimationActive={false}
          />
        )}
        <Area
          dataKey="most"
          stroke="none"
          fill={color}
          fillOpacity={0.14}
          activeDot={false}
          isAnimationActive={false}
        />
        <Area
          dataKey="middle"
          stroke="none"
          fill={color}
          fillOpacity={0.22}
          activeDot={false}
          isAnimationActive={false}
        />
        <Line
          dataKey="median"
          stroke={color}
          strokeWidth={1}
          strokeDasharray="4 3"
          dot={false}
          activeDot={false}
          isAnimationActive={false}
        />
        <Line
          dataKey="mean"
          stroke={color}
          strokeWidth={2}
          dot={single ? { r: 2, fill: color, strokeWidth: 0 } : false}
          activeDot={{ r: 3 }}
          isAnimationActive={false}
        />
        <Line
          dataKey="running"
          stroke="none"
          dot={{ r: 3, fill: 'var(--surface)', stroke: color, strokeOpacity: 0.6 }}
          activeDot={false}
          isAnimationActive={false}
        />
        {data.overlays.map((other) => (
          <Line
            key={other}
            dataKey={`run:${other}`}
            stroke={hueOf('run', other)}
            strokeWidth={1.75}
            dot={false}
            activeDot={{ r: 3 }}
            connectNulls
            isAnimationActive={false}
          />
        ))}
      </ComposedChart>
    </ResponsiveContainer>
  )
}

function FanTip({ step, data, color }: { step: FanStep; data: FanData; color: string }) {
  const mark = data.marks.find((one) => one.step === step.step)
  const range = (pair: readonly number[] | null) =>
    pair === null ? '–' : `${formatScore(pair[0])} to ${formatScore(pair[1])}`
  const own =
    step.mean !== null
      ? [
          { label: 'mean', value: formatScore(step.mean), color },
          { label: 'median', value: formatScore(step.median) },
          { label: '25 to 75 %', value: range(step.middle) },
          { label: '5 to 95 %', value: range(step.most) },
          { label: 'all', value: range(step.all) },
          { label: 'n', value: formatCount(step.n) },
        ]
      : step.running !== null
        ? [{ label: 'mean so far', value: formatScore(step.running), color }]
        : []
  const others = data.overlays.flatMap((name) => {
    const mean = step[`run:${name}`]
    return mean === null || mean === undefined
      ? []
      : [{ label: name, value: formatScore(mean), color: hueOf('run', name) }]
  })
  const rows = [...own, ...others]
  if (rows.length === 0) return null
  return (
    <div>
      <Tip title={`step ${formatCount(step.step)}`} rows={rows} />
      {mark && (
        <p className="mt-1 max-w-64 rounded-md border border-line-strong bg-raised px-2.5 py-1 text-xs shadow-pop">
          ◆ {mark.text}
        </p>
      )}
    </div>
  )
}

/** Groups that teach nothing, stacked by cause, as shares of all groups. */
export function SignalsPlot({ data }: { data: SharesData }) {
  return (
    <ResponsiveContainer width="100%" height="100%">
      <ComposedChart
        data={data.steps}
        margin={STEPS_MARGIN}
        syncId={SYNC}
        syncMethod="value"
        title={`Share of groups that teach nothing over ${formatCount(data.steps.length)} steps`}
      >
        {GRID}
        {stepAxis(data.stepTicks)}
        {valueAxis(data.signalTicks)}
        <Tooltip
          cursor={{ stroke: 'var(--ink-3)' }}
          isAnimationActive={false}
          content={({ active, payload }) => {
            const step = payload?.[0]?.payload as ShareStep | undefined
            return active && step && step.groups > 0 ? (
              <Tip
                title={`step ${formatCount(step.step)}`}
                rows={[
                  ...data.signals.map((signal) => ({
                    label: SIGNAL_LABEL[signal],
                    value: percentText(step[signal]),
                    color: SIGNAL_COLOUR[signal],
                  })),
                  { label: 'groups', value: formatCount(step.groups) },
                ]}
              />
            ) : null
          }}
        />
        {data.signals.map((signal) => (
          <Area
            key={signal}
            dataKey={signal}
            stackId="signals"
            stroke={SIGNAL_COLOUR[signal]}
            strokeWidth={1}
            fill={SIGNAL_COLOUR[signal]}
            fillOpacity={0.45}
            activeDot={false}
            isAnimationActive={false}
          />
        ))}
      </ComposedChart>
    </ResponsiveContainer>
  )
}

/** Failed samples as a share of those that ended. */
export function FailuresPlot({ data }: { data: SharesData }) {
  return (
    <ResponsiveContainer width="100%" height="100%">
      <ComposedChart
        data={data.steps}
        margin={STEPS_MARGIN}
        syncId={SYNC}
        syncMethod="value"
        title={`Share of samples that failed over ${formatCount(data.steps.length)} steps`}
      >
        {GRID}
        {stepAxis(data.stepTicks)}
        {valueAxis(data.failedTicks, 48)}
        <Tooltip
          cursor={{ stroke: 'var(--ink-3)' }}
          isAnimationActive={false}
          content={({ active, payload }) => {
            const step = payload?.[0]?.payload as ShareStep | undefined
            return active && step && step.failed !== null ? (
              <Tip
                title={`step ${formatCount(step.step)}`}
                rows={[{ label: 'failed', value: percentText(step.failed), color: 'var(--bad)' }]}
              />
            ) : null
          }}
        />
        <Area
          dataKey="failed"
          stroke="var(--bad)"
          strokeWidth={1.5}
          fill="var(--bad)"
          fillOpacity={0.14}
          activeDot={{ r: 3 }}
          isAnimationActive={false}
        />
      </ComposedChart>
    </ResponsiveContainer>
  )
}

/** The wait for a step's rewards beside the time to the next step. */
export function WaitsPlot({ data }: { data: WaitData }) {
  return (
    <ResponsiveContainer width="100%" height="100%">
      <ComposedChart
        data={data.steps}
        margin={STEPS_MARGIN}
        syncId={SYNC}
        syncMethod="value"
        title={`Reward wait and step time over ${formatCount(data.steps.length)} steps`}
      >
        {GRID}
        {stepAxis(data.stepTicks)}
        {valueAxis(data.ticks, 64)}
        <Tooltip
          cursor={{ stroke: 'var(--ink-3)' }}
          isAnimationActive={false}
          content={({ active, payload }) => {
            const step = payload?.[0]?.payload as WaitStep | undefined
            return active && step && (step.waitMs !== null || step.stepMs !== null) ? (
              <Tip
                title={`step ${formatCount(step.step)}`}
                rows={[
                  {
                    label: 'reward wait',
                    value: durationText(step.waitMs),
                    color: 'var(--data-2)',
                  },
                  { label: 'to the next step', value: durationText(step.stepMs) },
                ]}
              />
            ) : null
          }}
        />
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
      </ComposedChart>
    </ResponsiveContainer>
  )
}

/** The mean reward of one data source, in the band of its middle half, on the scale of all. */
export function SourcePlot({ data, of }: { data: SourceData; of: SourcesData }) {
  const color = hueOf('source', data.name)
  return (
    <ResponsiveContainer width="100%" height="100%">
      <ComposedChart
        data={data.steps}
        margin={STEPS_MARGIN}
        syncId={SYNC}
        syncMethod="value"
        title={`Mean reward of ${data.name}`}
      >
        {GRID}
        {stepAxis(of.stepTicks)}
        {valueAxis(of.valueTicks)}
        <Tooltip
          cursor={{ stroke: 'var(--ink-3)' }}
          isAnimationActive={false}
          content={({ active, payload }) => {
            const step = payload?.[0]?.payload as SourceData['steps'][number] | undefined
            return active && step && step.mean !== null ? (
              <Tip
                title={`step ${formatCount(step.step)}`}
                rows={[
                  { label: 'mean', value: formatScore(step.mean), color },
                  {
                    label: '25 to 75 %',
                    value: `${formatScore(step.middle?.[0])} to ${formatScore(step.middle?.[1])}`,
                  },
                  { label: 'n', value: formatCount(step.n) },
                ]}
              />
            ) : null
          }}
        />
        <Area
          dataKey="middle"
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
          dot={false}
          activeDot={{ r: 3 }}
          isAnimationActive={false}
        />
      </ComposedChart>
    </ResponsiveContainer>
  )
}
