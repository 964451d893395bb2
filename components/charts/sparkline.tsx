import { memo } from 'react'
import { prepareSparkline } from './sparkline.prepare.ts'

/** Readings of a full line, one per second. */
const SECONDS = 60

/** The last minute of a figure, without axes. `label` is its accessible description. */
export const Sparkline = memo(function Sparkline({
  readings,
  label,
  color = 'var(--accent)',
  height = 24,
}: {
  readings: readonly (number | null)[]
  label: string
  color?: string
  height?: number
}) {
  const width = 120
  // A new process has less than a minute of readings: its line starts later.
  const missing = Math.max(0, SECONDS - readings.length)
  const shape = prepareSparkline([...Array<null>(missing).fill(null), ...readings], width, height)
  return (
    <svg
      role="img"
      aria-label={label}
      viewBox={`0 0 ${width} ${height}`}
      preserveAspectRatio="none"
      className="block h-full w-full overflow-visible"
    >
      {/* Without readings, a hairline marks the place. */}
      <line
        x1={0}
        x2={width}
        y1={height - 0.5}
        y2={height - 0.5}
        stroke="var(--line)"
        vectorEffect="non-scaling-stroke"
      />
      {shape.areas.map((d) => (
        <path key={d} d={d} fill={color} opacity={0.1} />
      ))}
      {shape.lines.map((d) => (
        <path
          key={d}
          d={d}
          fill="none"
          stroke={color}
          strokeWidth={1.5}
          strokeLinejoin="round"
          strokeLinecap="round"
          vectorEffect="non-scaling-stroke"
        />
      ))}
    </svg>
  )
})
