'use client'

import { Area, Line } from 'recharts'

/**
 * Up to this many points each is drawn, so that a single step between two gaps is visible. With more, points of 4 px
 * would be closer than 20 px in a plot of 800 px and hide the line.
 */
const MAX_POINTS = 40

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

/** A line over steps, with points where they are few. */
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
  /** The number of points; omitted: none are drawn. */
  points?: number
  /** The line width, px. */
  width?: number
  hide?: boolean
  /** Connects gaps; only where a missing step has no meaning, as in another run. */
  joined?: boolean
}) {
  const dotted = points !== undefined && points <= MAX_POINTS
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
