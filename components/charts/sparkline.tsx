import { memo } from 'react'
import { prepareSparkline } from './sparkline.prepare.ts'

const WIDTH = 120
/** Number of readings that fill the width by default, one per second. */
const SECONDS = 60

/**
 * The newest readings of a figure, without axes. It is plain SVG, because the overview loads no chart library. `label`
 * is the accessible description.
 */
export const Sparkline = memo(function Sparkline({
  readings,
  label,
  color = 'var(--accent)',
  height = 24,
  slots = SECONDS,
  thresholds = [],
  fit = false,
  top = 0,
}: {
  readings: readonly (number | null)[]
  label: string
  color?: string
  height?: number
  /** Number of readings that fill the width; with fewer, the line starts further right. */
  slots?: number
  thresholds?: readonly number[]
  /** Whether the scale fits the readings instead of including zero. The area below the line is then not filled. */
  fit?: boolean
  /** A value that the scale includes, such as 1 for rates, so that several lines can be compared. */
  top?: number
}) {
  const missing = Array<null>(Math.max(0, slots - readings.length)).fill(null)
  const shape = prepareSparkline([...missing, ...readings], WIDTH, height, thresholds, { fit, top })
  const line = { fill: 'none', strokeLinecap: 'round', vectorEffect: 'non-scaling-stroke' } as const
  return (
    <svg
      role="img"
      aria-label={label}
      viewBox={`0 0 ${WIDTH} ${height}`}
      preserveAspectRatio="none"
      className="block h-full w-full overflow-visible"
    >
      {/* The baseline is also drawn without readings, to mark the place of the chart. */}
      <path {...line} d={`M0 ${fit ? height : shape.zero + 1}H${WIDTH}`} stroke="var(--line)" />
      {shape.thresholds.map((y) => (
        <path {...line} key={y} d={`M0 ${y}H${WIDTH}`} stroke="var(--warn)" strokeDasharray="3 3" />
      ))}
      {!fit && shape.areas.map((d) => <path key={d} d={d} fill={color} opacity={0.1} />)}
      {shape.lines.map((d) => (
        <path {...line} key={d} d={d} stroke={color} strokeWidth={1.5} strokeLinejoin="round" />
      ))}
      {shape.last && (
        // A line of zero length is drawn as a circle, which the stretched view does not distort.
        <path
          {...line}
          d={`M${shape.last.x} ${shape.last.y}h0.01`}
          stroke={color}
          strokeWidth={4}
        />
      )}
    </svg>
  )
})
