'use client'

import { type ReactNode, useMemo } from 'react'
import { Area, Line, ReferenceLine } from 'recharts'
import { formatCount } from '../format/numbers.ts'
import { type MarkLine, prepareMarks } from './marks.prepare.ts'
import { useMarks } from './marks.ts'
import { Plot } from './plot.tsx'
import type { Tick } from './ticks.ts'
import { MarkTip, Tip, type TipRow } from './tip.tsx'

/** The charts of a run share their cursor. */
const SYNC = 'run-steps'

/** A plot over the steps of a run, with its marks. */
export function StepPlot<T extends { step: number }>({
  data,
  title,
  stepTicks,
  valueTicks,
  axisWidth = 44,
  labels = false,
  sync = SYNC,
  tip,
  onStep,
  onRange,
  children,
}: {
  data: readonly T[]
  /** The accessible description. */
  title: string
  stepTicks: readonly number[]
  valueTicks: readonly Tick[]
  axisWidth?: number
  /** Marks have labels where there is room. */
  labels?: boolean
  /** Plots with the same key share their cursor. */
  sync?: string
  /** The values in the tooltip of a step; null or none: no tooltip. */
  tip(step: T): TipRow[] | null
  onStep?(step: NoInfer<T>): void
  /** Called with the first and last step of a drag. */
  onRange?(from: number, to: number): void
  children: ReactNode
}) {
  const marks = useMarks()
  const lines = useMemo(
    () =>
      prepareMarks(
        marks,
        data.map(({ step }) => step),
        labels,
      ),
    [marks, data, labels],
  )
  return (
    <Plot
      data={data}
      title={title}
      x={{
        dataKey: 'step',
        type: 'number',
        domain: ['dataMin', 'dataMax'],
        ticks: stepTicks.map((at) => ({ at, label: formatCount(at) })),
      }}
      y={{ ticks: valueTicks, width: axisWidth }}
      right={12}
      sync={sync}
      tip={(step: T) => {
        const rows = tip(step) ?? []
        return (
          rows.length > 0 && (
            <div>
              <Tip title={`step ${formatCount(step.step)}`} rows={rows} />
              <MarkTip line={lines.find((line) => line.step === step.step)} />
            </div>
          )
        )
      }}
      {...(onStep && { onPick: onStep })}
      {...(onRange && { onRange })}
    >
      {lines.map((line) => (
        <ReferenceLine
          key={line.step}
          x={line.step}
          stroke="var(--ink-2)"
          strokeDasharray="2 3"
          label={<MarkLabel line={line} />}
        />
      ))}
      {children}
    </Plot>
  )
}

/** The icon of a mark at the top of its line, with its label where there is room. */
function MarkLabel({ line, viewBox }: { line: MarkLine; viewBox?: { x?: number; y?: number } }) {
  const { x = 0, y = 0 } = viewBox ?? {}
  const left = line.side === 'left'
  return (
    <g data-mark={line.step}>
      <path
        d={`M${x} ${y + 5}l4 4l-4 4l-4 -4Z`}
        fill="var(--ink-2)"
        stroke="var(--surface)"
        strokeWidth={1}
      />
      {line.text !== null && (
        <text
          x={x + (left ? -7 : 7)}
          y={y + 13}
          textAnchor={left ? 'end' : 'start'}
          fill="var(--ink-2)"
          fontSize={11}
          stroke="var(--surface)"
          strokeWidth={3}
          paintOrder="stroke"
        >
          {line.text}
        </text>
      )}
    </g>
  )
}

/**
 * Up to this many points each is drawn, so that a single step between two gaps is visible. With more, points of 4 px
 * would be closer than 20 px in a plot of 800 px and hide the line.
 */
const MAX_DOTTED_POINTS = 40

/** A band between two values over steps: `dataKey` names pairs of numbers, null for a gap. */
export function StepBand({
  dataKey,
  color,
  opacity,
  hide = false,
}: {
  dataKey: string
  color: string
  opacity: number
  hide?: boolean
}) {
  return (
    <Area
      dataKey={dataKey}
      hide={hide}
      stroke="none"
      fill={color}
      fillOpacity={opacity}
      activeDot={false}
      isAnimationActive={false}
    />
  )
}

/** A layer of the stack of a plot. */
export function StepArea({ dataKey, color }: { dataKey: string; color: string }) {
  return (
    <Area
      dataKey={dataKey}
      stackId="all"
      stroke={color}
      strokeWidth={1}
      fill={color}
      fillOpacity={0.45}
      activeDot={false}
      isAnimationActive={false}
    />
  )
}

/** A line over steps, with points where they are few. */
export function StepLine({
  dataKey,
  color,
  points,
  width = 1.75,
  hide = false,
  joined = false,
  opacity = 1,
}: {
  dataKey: string
  color: string
  /** The number of points; omitted: none are drawn. */
  points?: number
  /** The line width, px. */
  width?: number
  hide?: boolean
  /** Connects gaps, for lines on which a missing step means nothing, such as another run's. */
  joined?: boolean
  opacity?: number
}) {
  const dotted = points !== undefined && points <= MAX_DOTTED_POINTS
  return (
    <Line
      dataKey={dataKey}
      hide={hide}
      stroke={color}
      strokeWidth={width}
      strokeOpacity={opacity}
      dot={dotted ? { r: 2, fill: color, strokeWidth: 0 } : false}
      activeDot={{ r: 3 }}
      connectNulls={joined}
      isAnimationActive={false}
    />
  )
}
