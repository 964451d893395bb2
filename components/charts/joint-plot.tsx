'use client'

import type { JointCellIndex } from '../../server/contract/compare.ts'
import { formatCount, percentText, plural } from '../format/numbers.ts'
import { FootTicks, placeOf, SideTicks, TipAt, usePlace } from './cell-plot.tsx'
import { type JointData, jointAt } from './joint.prepare.ts'
import { Tip } from './tip.tsx'

const LEFT = 56
const BOTTOM = 36

export function JointPlot({
  data,
  first,
  second,
  onCell,
}: {
  data: JointData
  first: string
  second: string
  onCell(cell: JointCellIndex): void
}) {
  const { place, handlers } = usePlace()
  const found = place && jointAt(data, place.x, place.y)
  return (
    <figure
      className="relative h-full select-none"
      aria-label={`Scores of ${formatCount(data.n)} samples: x is first: ${first}, y is second: ${second}`}
    >
      <div className="absolute top-1 left-0" style={{ width: LEFT - 8, bottom: BOTTOM }}>
        <SideTicks ticks={data.secondTicks} />
      </div>
      <div
        className="absolute top-1 right-3 border-b border-l border-line-strong"
        style={{ left: LEFT, bottom: BOTTOM }}
      >
        {/* biome-ignore lint/a11y/useKeyWithClickEvents: the 1,024 bins would be too many tab stops; table cells are buttons */}
        <svg
          className="block size-full"
          viewBox="0 0 1 1"
          preserveAspectRatio="none"
          shapeRendering="crispEdges"
          aria-hidden
          {...handlers}
          onClick={(event) => {
            const { x, y } = placeOf(event)
            const clicked = jointAt(data, x, y)
            if (clicked) onCell(clicked.index)
          }}
        >
          <rect width={1} height={1} fill="transparent" />
          {data.cells.map((cell) => (
            <rect
              key={`${cell.x} ${cell.y}`}
              x={cell.x}
              y={cell.y}
              width={cell.width}
              height={cell.height}
              className="cursor-pointer"
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
            <button
              key={`${cell.x} ${cell.y}`}
              type="button"
              aria-label={`Show ${plural(cell.samples, 'sample')}: first ${cell.first}, second ${cell.second}`}
              onClick={() => onCell(cell.index)}
              className="num absolute flex flex-col items-center justify-center text-xs hover:underline"
              style={{
                left: `${cell.x * 100}%`,
                top: `${cell.y * 100}%`,
                width: `${cell.width * 100}%`,
                height: `${cell.height * 100}%`,
              }}
            >
              <span className="font-medium">{formatCount(cell.samples)}</span>
              {data.columns <= 4 && data.rows <= 4 && (
                <span className="text-2xs">{percentText(cell.samples / data.n)}</span>
              )}
            </button>
          ))}
        {place && found && !data.isTable && (
          <TipAt place={place}>
            <Tip
              title={plural(found.samples, 'sample')}
              rows={[
                { label: 'First', value: found.first },
                { label: 'Second', value: found.second },
                { label: 'Share of samples', value: percentText(found.samples / data.n) },
              ]}
            />
          </TipAt>
        )}
      </div>
      <div className="absolute right-3 bottom-4 h-4" style={{ left: LEFT }}>
        <FootTicks ticks={data.firstTicks} />
      </div>
      <p
        className="absolute right-3 bottom-0 flex h-4 justify-between gap-4 text-2xs text-ink-3"
        style={{ left: LEFT }}
      >
        <span className="truncate">↑ Second: {second}</span>
        <span className="truncate">First: {first} →</span>
      </p>
    </figure>
  )
}
