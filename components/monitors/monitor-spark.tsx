import { memo } from 'react'
import type { MonitorPointDto, MonitorSettingDto } from '../../server/contract/monitors.ts'
import { prepareMonitorSpark } from '../charts/monitor.prepare.ts'

const [WIDTH, HEIGHT] = [140, 28]

/** The last values of a monitor with its threshold, without axes; `label` is the accessible description. */
export const MonitorSpark = memo(function MonitorSpark({
  points,
  setting,
  label,
}: {
  points: readonly MonitorPointDto[]
  setting: MonitorSettingDto
  label: string
}) {
  const shape = prepareMonitorSpark(points, setting, WIDTH, HEIGHT)
  return (
    <svg
      role="img"
      aria-label={label}
      viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
      className="block h-7 w-[140px] overflow-visible"
    >
      {shape.thresholds.map((y) => (
        <line
          key={y}
          x1={0}
          x2={WIDTH}
          y1={y}
          y2={y}
          stroke="var(--warn)"
          strokeDasharray="3 3"
          opacity={0.8}
        />
      ))}
      {shape.lines.map((d) => (
        <path
          key={d}
          d={d}
          fill="none"
          stroke="var(--data-1)"
          strokeWidth={1.5}
          strokeLinejoin="round"
          strokeLinecap="round"
        />
      ))}
      {shape.last && <circle cx={shape.last.x} cy={shape.last.y} r={2.25} fill="var(--data-1)" />}
    </svg>
  )
})
