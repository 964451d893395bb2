'use client'

import { Area, Line } from 'recharts'

/**
 * Up to so many points each is seen as one: a lone step between two gaps has no line to be seen by. With more, points
 * of 4 px lie closer than 20 px in a plot of 800 and hide the line.
 */
const MOST_POINTS = 40

/** A band between two values over the steps of a plot: `dataKey` names pairs of numbers, null where there is a gap. */
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

/** A line over the steps of a plot, with its points where they are few enough to be told apart. */
export function StepLine({
  dataKey,
  color,
  points,
  width = 1.75,
  hide = false,
  joined = false,
}: {
  dataKey: string
  color: string
  /** How many it has; left out: they are never drawn. */
  points?: number
  /** Of the line, px. */
  width?: number
  hide?: boolean
  /** Goes over gaps: only where a step without a value says nothing, as where another run has none. */
  joined?: boolean
}) {
  const dotted = points !== undefined && points <= MOST_POINTS
  return (
    <Line
      dataKey={dataKey}
      hide={hide}
      stroke={color}
      strokeWidth={width}
      dot={dotted ? { r: 2, fill: color, strokeWidth: 0 } : false}
      activeDot={{ r: 3 }}
      connectNulls={joined}
      isAnimationActive={false}
    />
  )
}
