'use client'

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
import { formatCount, formatPercent, formatScore, quantityText } from '../format/numbers.ts'
import type { CdfData, DeltaData, OverlayData, OverlayStep } from './compare.prepare.ts'
import type { DistributionChartData } from './distribution.prepare.ts'
import { AXIS, CURSOR, GRID, labelOf, MARGIN, TICK } from './plot-parts.tsx'
import { StepPlot } from './step-plot.tsx'
import { Tip } from './tip.tsx'

const SYNC = 'compared-steps'
const STEPS_MARGIN = { ...MARGIN, right: 12 }
const FIRST = 'var(--data-1)'
const SECOND = 'var(--data-2)'

type Ticks = readonly { at: number; label: string }[]

const percentText = (share: number) => quantityText(formatPercent(share))

function valueAxis(ticks: Ticks, width = 48) {
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

/** Both distribution functions: the further apart, the more the scores differ. */
export function CdfPlot({ data, n }: { data: CdfData; n: number }) {
  const line = {
    type: 'stepAfter',
    strokeWidth: 1.75,
    dot: false,
    isAnimationActive: false,
  } as const
  return (
    <ResponsiveContainer width="100%" height="100%">
      <ComposedChart
        data={data.points}
        margin={STEPS_MARGIN}
        title={`Share of ${formatCount(n)} samples with at most a score, by both rewards`}
      >
        {GRID}
        <XAxis
          dataKey="value"
          type="number"
          domain={[data.valueTicks[0]?.at ?? 0, data.valueTicks.at(-1)?.at ?? 1]}
          ticks={data.valueTicks.map((tick) => tick.at)}
          tickFormatter={labelOf(data.valueTicks)}
          tick={TICK}
          axisLine={AXIS}
          tickLine={false}
        />
        {valueAxis([0, 0.25, 0.5, 0.75, 1].map((at) => ({ at, label: `${at * 100} %` })))}
        <Tooltip
          cursor={{ stroke: 'var(--ink-3)' }}
          isAnimationActive={false}
          content={({ active, payload }) => {
            const at = payload?.[0]?.payload as CdfData['points'][number] | undefined
            return active && at ? (
              <Tip
                title={`at most ${formatScore(at.value)}`}
                rows={[
                  { label: 'first', value: percentText(at.first), color: FIRST },
                  { label: 'second', value: percentText(at.second), color: SECOND },
                ]}
              />
            ) : null
          }}
        />
        <Line {...line} dataKey="first" stroke={FIRST} activeDot={{ r: 3 }} />
        <Line {...line} dataKey="second" stroke={SECOND} activeDot={{ r: 3 }} />
      </ComposedChart>
    </ResponsiveContainer>
  )
}

/** How the differences are spread: below 0 the first scored higher, above it the second. */
export function DifferencePlot({ data }: { data: DistributionChartData }) {
  return (
    <ResponsiveContainer width="100%" height="100%">
      <BarChart
        data={data.rows}
        margin={MARGIN}
        barCategoryGap={data.kind === 'bars' ? '32%' : 1}
        maxBarSize={72}
        title={`Differences of ${formatCount(data.n)} samples`}
      >
        {GRID}
        <XAxis
          dataKey={data.kind === 'bars' ? 'label' : 'from'}
          tick={TICK}
          axisLine={AXIS}
          tickLine={false}
          minTickGap={28}
          {...(data.kind === 'bars'
            ? {}
            : { tickFormatter: (from: number) => from.toFixed(data.edgeDigits).replace('-', '−') })}
        />
        <YAxis
          width={48}
          tick={TICK}
          axisLine={false}
          tickLine={false}
          domain={[0, data.ticks.at(-1)?.at ?? 1]}
          ticks={data.ticks.map((tick) => tick.at)}
          tickFormatter={labelOf(data.ticks)}
        />
        <Tooltip
          cursor={CURSOR}
          isAnimationActive={false}
          content={({ active, payload }) => {
            const row = payload?.[0]?.payload as DistributionChartData['rows'][number] | undefined
            return active && row ? (
              <Tip
                title={`second − first: ${row.label}`}
                rows={[
                  { label: 'samples', value: formatCount(row.count) },
                  { label: 'share', value: row.share },
                ]}
              />
            ) : null
          }}
        />
        <Bar dataKey="height" isAnimationActive={false} radius={[2, 2, 0, 0]}>
          {data.rows.map((row) => (
            <Cell
              key={row.from}
              fill={row.to < 0 ? FIRST : row.from > 0 ? SECOND : 'var(--data-8)'}
            />
          ))}
        </Bar>
      </BarChart>
    </ResponsiveContainer>
  )
}

/** A line of an overlay. */
export interface OverlaySeries {
  name: string
  color: string
  isHidden: boolean
}

/** Runs over their steps, a line each, and where asked for the band of their scores. */
export function OverlayPlot({
  data,
  series,
  title,
  write,
  hasBand,
}: {
  data: OverlayData
  series: readonly OverlaySeries[]
  title: string
  /** A value as it is told. */
  write(value: number): string
  hasBand?: boolean
}) {
  const single = data.steps.length <= 40
  const tip = (step: OverlayStep) => {
    const rows = series.flatMap(({ name, color, isHidden }, at) => {
      const value = step[`v${at}`]
      return isHidden || value === null || value === undefined
        ? []
        : [{ label: name, value: write(value), color }]
    })
    return rows.length === 0 ? null : <Tip title={`step ${formatCount(step.step)}`} rows={rows} />
  }
  return (
    <StepPlot
      data={data.steps}
      title={title}
      stepTicks={data.stepTicks}
      valueTicks={data.ticks}
      axisWidth={56}
      sync={SYNC}
      tip={tip}
    >
      {hasBand &&
        series.map(({ name, color, isHidden }, at) => (
          <Area
            key={`band ${name}`}
            dataKey={`b${at}`}
            hide={isHidden}
            stroke="none"
            fill={color}
            fillOpacity={0.13}
            activeDot={false}
            isAnimationActive={false}
          />
        ))}
      {series.map(({ name, color, isHidden }, at) => (
        <Line
          key={name}
          dataKey={`v${at}`}
          hide={isHidden}
          stroke={color}
          strokeWidth={1.75}
          dot={single ? { r: 2, fill: color, strokeWidth: 0 } : false}
          activeDot={{ r: 3 }}
          isAnimationActive={false}
        />
      ))}
    </StepPlot>
  )
}

/** The difference from the first run by step, in its 95 % interval. */
export function StepDeltaPlot({
  data,
  color,
  title,
}: {
  data: DeltaData
  color: string
  title: string
}) {
  const single = data.steps.length <= 40
  return (
    <StepPlot
      data={data.steps}
      title={title}
      stepTicks={data.stepTicks}
      valueTicks={data.ticks}
      axisWidth={56}
      sync={SYNC}
      tip={(step) =>
        step.delta !== null && step.interval !== null ? (
          <Tip
            title={`step ${formatCount(step.step)}`}
            rows={[
              { label: 'difference', value: formatScore(step.delta), color },
              {
                label: '95 %',
                value: `${formatScore(step.interval[0])} to ${formatScore(step.interval[1])}`,
              },
              { label: 'n', value: step.n },
            ]}
          />
        ) : null
      }
    >
      <ReferenceLine y={0} stroke="var(--ink-3)" strokeDasharray="3 3" />
      <Area
        dataKey="interval"
        stroke="none"
        fill={color}
        fillOpacity={0.18}
        activeDot={false}
        isAnimationActive={false}
      />
      <Line
        dataKey="delta"
        stroke={color}
        strokeWidth={1.75}
        dot={single ? { r: 2, fill: color, strokeWidth: 0 } : false}
        activeDot={{ r: 3 }}
        isAnimationActive={false}
      />
    </StepPlot>
  )
}
