'use client'

import { type ReactNode, useMemo } from 'react'
import { Area, type DotItemDotProps, Line, ReferenceLine } from 'recharts'
import { formatCount } from '../format/numbers.ts'
import { type MarkLine, prepareMarks } from './marks.prepare.ts'
import { useMarks } from './marks.ts'
import { Plot } from './plot.tsx'
import {
  type Placed,
  placeSteps,
  type StepRow,
  stepsBetween,
  stepTitle,
  withPauses,
} from './step-axis.prepare.ts'
import { useStepAxis } from './step-axis.ts'
import { localTimeTicks, type Tick } from './ticks.ts'
import { MarkTip, Tip, type TipRow } from './tip.tsx'

const SYNC = 'run-steps'

/**
 * A plot with marks over the steps of a run, or over the times at which their batches were accepted. A click on a bin
 * zooms to its steps.
 */
export function StepPlot<T extends StepRow>({
  data,
  title,
  stepTicks,
  valueTicks,
  axisWidth = 44,
  isLog = false,
  labels = false,
  sync = SYNC,
  tip,
  onStep,
  children,
  ...given
}: {
  /** Rows that have an `x` are already placed on the axis. */
  data: readonly T[]
  /** The accessible description. */
  title: string
  stepTicks: readonly number[]
  valueTicks: readonly Tick[]
  axisWidth?: number
  isLog?: boolean
  labels?: boolean
  sync?: string
  /** The values in the tooltip of a step. Null or an empty list shows no tooltip. */
  tip(step: T): TipRow[] | null
  onStep?(step: NoInfer<T>): void
  /** Called after a drag, with the first and last step. By default, the `onRange` of {@link useStepAxis} is called. */
  onRange?(from: number, to: number): void
  children: ReactNode
}) {
  const marks = useMarks()
  const { by, timeOf, onRange: onPageRange } = useStepAxis()
  const onRange = given.onRange ?? onPageRange
  const isTime = by === 'time'
  const rows = useMemo(() => {
    const placed = placeSteps(data, by, timeOf)
    return isTime ? withPauses(placed) : placed
  }, [data, by, isTime, timeOf])
  const lines = useMemo(
    () => prepareMarks(marks, rows, labels, isTime ? timeOf : undefined),
    [marks, rows, labels, isTime, timeOf],
  )
  const ticks = isTime
    ? localTimeTicks(rows[0]?.x ?? 0, rows.at(-1)?.x ?? 0)
    : stepTicks.map((at) => ({ at, label: formatCount(at) }))
  const isBin = ({ step, last = step }: StepRow) => last > step
  return (
    <Plot
      data={rows}
      title={title}
      x={{ dataKey: 'x', type: 'number', domain: ['dataMin', 'dataMax'], ticks }}
      y={{ ticks: valueTicks, width: axisWidth, ...(isLog && { scale: 'log' }) }}
      right={12}
      sync={sync}
      tip={(row: Placed<T>) => {
        const values = row.isPause ? [] : (tip(row) ?? [])
        const { step, last = step } = row
        return (
          values.length > 0 && (
            <div>
              <Tip title={stepTitle(row, isTime ? row.x : null)} rows={values} />
              {lines
                .filter((line) => line.step >= step && line.step <= last)
                .map((line) => (
                  <MarkTip key={line.step} line={line} />
                ))}
            </div>
          )
        )
      }}
      {...((onStep !== undefined || (onRange !== null && rows.some(isBin))) && {
        onPick: (row: Placed<T>) => {
          if (isBin(row) && onRange) onRange(row.step, row.last as number)
          else if (!row.isPause && !row.other) onStep?.(row)
        },
      })}
      {...(onRange && {
        onRange: (from: number, to: number) => {
          const steps = stepsBetween(rows, from, to)
          if (steps !== null) onRange(steps.from, steps.to)
        },
      })}
    >
      {lines.map((line) => (
        <ReferenceLine
          key={line.step}
          x={line.x}
          stroke="var(--ink-2)"
          strokeDasharray="2 3"
          label={<MarkLabel line={line} />}
        />
      ))}
      {children}
    </Plot>
  )
}

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
 * A line with at most this many points has a dot at each, so that a single step between two gaps is visible. More dots,
 * 4 px wide and less than 20 px apart in a plot of 800 px, would hide the line.
 */
const MAX_DOTTED_POINTS = 40

/** A band between two values over steps. `dataKey` names pairs of numbers, which are null for a gap. */
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

/**
 * A part of a stack over steps. A stepped area keeps the value of a step until halfway to the next one, and has no
 * outline. Stepped areas suit parts that change their sign, because a straight edge would cross 0 between two steps.
 */
export function StepArea({
  dataKey,
  color,
  stepped = false,
}: {
  dataKey: string
  color: string
  stepped?: boolean
}) {
  return (
    <Area
      dataKey={dataKey}
      stackId="all"
      type={stepped ? 'step' : 'linear'}
      stroke={stepped ? 'none' : color}
      strokeWidth={1}
      fill={color}
      fillOpacity={stepped ? 0.6 : 0.45}
      activeDot={false}
      isAnimationActive={false}
    />
  )
}

/** A dot at a point of a line. A point that belongs only to another run has no dot. */
function PointDot({
  cx,
  cy,
  payload,
  color,
}: Pick<DotItemDotProps, 'cx' | 'cy' | 'payload'> & { color: string }) {
  if (cx === undefined || cy === undefined || cy === null || payload?.other) return null
  return <circle cx={cx} cy={cy} r={2} fill={color} />
}

export function StepLine({
  dataKey,
  color,
  points,
  width = 1.75,
  hide = false,
  joined = false,
  stepped = false,
  opacity = 1,
}: {
  dataKey: string
  color: string
  /** Number of points of the line. If omitted, no dots are drawn. */
  points?: number
  width?: number
  hide?: boolean
  /**
   * Whether the line bridges gaps. This suits lines whose missing steps have no meaning, such as the lines of other
   * runs.
   */
  joined?: boolean
  /** Whether the line follows the edges of stepped areas. */
  stepped?: boolean
  opacity?: number
}) {
  const dotted = points !== undefined && points <= MAX_DOTTED_POINTS
  return (
    <Line
      dataKey={dataKey}
      hide={hide}
      type={stepped ? 'step' : 'linear'}
      stroke={color}
      strokeWidth={width}
      strokeOpacity={opacity}
      dot={dotted && (({ key, ...dot }) => <PointDot key={key} {...dot} color={color} />)}
      activeDot={{ r: 3 }}
      connectNulls={joined}
      isAnimationActive={false}
    />
  )
}
