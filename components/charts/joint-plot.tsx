'use client'

import { type PointerEvent, useState } from 'react'
import { formatCount, formatPercent, plural, quantityText } from '../format/numbers.ts'
import { type JointData, jointAt } from './joint.prepare.ts'
import { Tip } from './tip.tsx'

const LEFT = 56
const BOTTOM = 36

/** Which pair of scores how many samples have: the darker, the more. The first reward across, the second upwards. */
export function JointPlot({
  data,
  first,
  second,
}: {
  data: JointData
  /** Names of the rewards. */
  first: string
  second: string
}) {
  const [under, setUnder] = useState<{ x: number; y: number } | null>(null)
  const follow = (event: PointerEvent<SVGSVGElement>) => {
    const box = event.currentTarget.getBoundingClientRect()
    setUnder({
      x: (event.clientX - box.left) / box.width,
      y: (event.clientY - box.top) / box.height,
    })
  }
  const found = under && jointAt(data, under.x, under.y)
  return (
    <div
      className="relative h-full select-none"
      role="img"
      aria-label={`Scores by ${first} across, by ${second} upwards, of ${formatCount(data.n)} samples`}
    >
      <div className="absolute top-1 left-0" style={{ width: LEFT - 8, bottom: BOTTOM }}>
        {data.secondTicks.map((tick) => (
          <span
            key={tick.label}
            className="num absolute right-0 -translate-y-1/2 text-2xs text-ink-3"
            style={{ top: `${tick.at * 100}%` }}
          >
            {tick.label}
          </span>
        ))}
      </div>
      <div
        className="absolute top-1 right-3 border-b border-l border-line-strong"
        style={{ left: LEFT, bottom: BOTTOM }}
      >
        <svg
          className="block size-full"
          viewBox="0 0 1 1"
          preserveAspectRatio="none"
          shapeRendering="crispEdges"
          aria-hidden
          onPointerMove={follow}
          onPointerLeave={() => setUnder(null)}
        >
          <rect width={1} height={1} fill="transparent" />
          {data.cells.map((cell) => (
            <rect
              key={`${cell.x} ${cell.y}`}
              x={cell.x}
              y={cell.y}
              width={cell.width}
              height={cell.height}
              fill="var(--data-1)"
              fillOpacity={data.isTable ? 0.06 + cell.fill * 0.4 : 0.1 + cell.fill * 0.9}
            />
          ))}
          {data.equal && (
            <line
              {...data.equal}
              stroke="var(--ink-3)"
              strokeWidth={1}
              strokeDasharray="3 3"
              vectorEffect="non-scaling-stroke"
              shapeRendering="auto"
            />
          )}
        </svg>
        {data.isTable &&
          data.cells.map((cell) => (
            <span
              key={`${cell.x} ${cell.y}`}
              className="num pointer-events-none absolute flex flex-col items-center justify-center text-xs"
              style={{
                left: `${cell.x * 100}%`,
                top: `${cell.y * 100}%`,
                width: `${cell.width * 100}%`,
                height: `${cell.height * 100}%`,
              }}
            >
              <span className="font-medium">{formatCount(cell.samples)}</span>
              {data.columns <= 4 && data.rows <= 4 && (
                <span className="text-2xs">
                  {quantityText(formatPercent(cell.samples / data.n))}
                </span>
              )}
            </span>
          ))}
        {under && found && !data.isTable && (
          <div
            className="pointer-events-none absolute z-10 whitespace-nowrap"
            style={{
              top: `${under.y * 100}%`,
              ...(under.x > 0.5
                ? { right: `${(1 - under.x) * 100}%`, marginRight: 12 }
                : { left: `${under.x * 100}%`, marginLeft: 12 }),
            }}
          >
            <Tip
              title={plural(found.samples, 'sample')}
              rows={[
                { label: 'first', value: found.first },
                { label: 'second', value: found.second },
                { label: 'share', value: quantityText(formatPercent(found.samples / data.n)) },
              ]}
            />
          </div>
        )}
      </div>
      <div className="absolute right-3 bottom-4 h-4" style={{ left: LEFT }}>
        {data.firstTicks.map((tick) => (
          <span
            key={tick.label}
            className="num absolute -translate-x-1/2 text-2xs text-ink-3"
            style={{ left: `${tick.at * 100}%` }}
          >
            {tick.label}
          </span>
        ))}
      </div>
      <p
        className="absolute right-3 bottom-0 flex h-4 justify-between gap-4 text-2xs text-ink-3"
        style={{ left: LEFT }}
      >
        <span className="truncate">↑ {second}</span>
        <span className="truncate">{first} →</span>
      </p>
    </div>
  )
}
