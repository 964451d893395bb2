'use client'

import { type ReactNode, useMemo } from 'react'
import { ComposedChart, ReferenceLine, ResponsiveContainer, Tooltip, XAxis, YAxis } from 'recharts'
import { formatCount } from '../format/numbers.ts'
import { MarkTip } from './mark-tip.tsx'
import { type MarkLine, prepareMarks } from './marks.prepare.ts'
import { useMarks } from './marks.ts'
import { AXIS, GRID, labelOf, STEPS_MARGIN, TICK } from './plot-parts.tsx'

/** The charts of a run share their cursor. */
const SYNC = 'run-steps'

/** The shared frame of step charts: axes, cursor, and the marks of the run. */
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
  children,
}: {
  data: readonly T[]
  /** The accessible description. */
  title: string
  stepTicks: readonly number[]
  valueTicks: readonly { at: number; label: string }[]
  axisWidth?: number
  /** Marks have labels where there is room. */
  labels?: boolean
  /** Plots with the same key share their cursor. */
  sync?: string
  /** The tooltip of a step; null: none. */
  tip(step: T): ReactNode
  onStep?(step: T): void
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
    <ResponsiveContainer width="100%" height="100%">
      <ComposedChart
        data={[...data]}
        margin={STEPS_MARGIN}
        syncId={sync}
        syncMethod="value"
        title={title}
        {...(onStep && {
          className: 'cursor-pointer',
          onClick: ({ activeLabel }: { activeLabel?: string | number | undefined }) => {
            const step = data.find((one) => one.step === Number(activeLabel))
            if (step) onStep(step)
          },
        })}
      >
        {GRID}
        <XAxis
          dataKey="step"
          type="number"
          domain={['dataMin', 'dataMax']}
          tick={TICK}
          axisLine={AXIS}
          tickLine={false}
          ticks={[...stepTicks]}
          tickFormatter={formatCount}
        />
        <YAxis
          width={axisWidth}
          tick={TICK}
          axisLine={false}
          tickLine={false}
          domain={[valueTicks[0]?.at ?? 0, valueTicks.at(-1)?.at ?? 1]}
          ticks={valueTicks.map((tick) => tick.at)}
          tickFormatter={labelOf(valueTicks)}
          interval={0}
          allowDataOverflow
        />
        {lines.map((line) => (
          <ReferenceLine
            key={line.step}
            x={line.step}
            stroke="var(--ink-2)"
            strokeDasharray="2 3"
            label={<MarkLabel line={line} />}
          />
        ))}
        <Tooltip
          cursor={{ stroke: 'var(--ink-3)' }}
          isAnimationActive={false}
          content={({ active, payload }) => {
            const step = payload?.[0]?.payload as T | undefined
            const told = active && step ? tip(step) : null
            if (!told || !step) return null
            return (
              <div>
                {told}
                <MarkTip line={lines.find((line) => line.step === step.step)} />
              </div>
            )
          }}
        />
        {children}
      </ComposedChart>
    </ResponsiveContainer>
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
