'use client'

import { formatCount, percentText } from '../format/numbers.ts'
import { FootTicks, placeOf, SideTicks, TipAt, useDrawing, usePlace } from './cell-plot.tsx'
import { type HeatCellAt, type HeatData, heatAt } from './heat.prepare.ts'
import { prepareMarks } from './marks.prepare.ts'
import { useMarks } from './marks.ts'
import { stepTitle } from './step-axis.prepare.ts'
import { useStepAxis } from './step-axis.ts'
import { MarkTip, Tip } from './tip.tsx'

const LEFT = 52
const BOTTOM = 20

export function HeatPlot({
  data,
  color,
  onCell,
}: {
  data: HeatData
  color: string
  onCell(cell: HeatCellAt): void
}) {
  const canvas = useDrawing(draw, data)
  const { place, handlers } = usePlace()
  const found = place && heatAt(data, place.x, place.y)
  const { by, timeOf, onRange } = useStepAxis()
  const isTime = by === 'time'
  const marks = prepareMarks(
    useMarks(),
    data.columns.map((column) => ({ ...column, x: (column.left + column.right) / 2 })),
    false,
    (step) => {
      const x = isTime ? timeOf(step) : step + 0.5
      return x === null ? null : data.placeOf(x)
    },
  )
  return (
    <div className="relative h-full select-none" role="img" aria-label={labelOf(data)}>
      <div className="absolute top-2 left-0" style={{ width: LEFT - 8, bottom: BOTTOM }}>
        <SideTicks ticks={data.valueTicks} />
      </div>
      <div className="absolute top-2 right-3" style={{ left: LEFT, bottom: BOTTOM }}>
        <canvas
          ref={canvas}
          className="size-full cursor-pointer border-b border-line-strong"
          style={{ color }}
          {...handlers}
          onClick={(event) => {
            const { x, y } = placeOf(event)
            const clicked = heatAt(data, x, y)
            if (clicked === null) return
            if (clicked.last > clicked.step && onRange) onRange(clicked.step, clicked.last)
            else onCell(clicked)
          }}
        />
        {marks.map(({ step, x }) => (
          <span
            key={step}
            aria-hidden
            className="pointer-events-none absolute inset-y-0 border-l border-dashed border-ink-2"
            style={{ left: `${x * 100}%` }}
          />
        ))}
        {place && found && (
          <TipAt place={place}>
            <Tip
              title={stepTitle(found, isTime ? timeOf(found.step) : null)}
              rows={[
                { label: 'Reward', value: found.row },
                { label: 'Share of samples', value: percentText(found.share) },
              ]}
            />
            {marks
              .filter(({ step }) => step >= found.step && step <= found.last)
              .map((line) => (
                <MarkTip key={line.step} line={line} />
              ))}
          </TipAt>
        )}
      </div>
      <div className="absolute right-3 bottom-0 h-4" style={{ left: LEFT }}>
        <FootTicks ticks={data.stepTicks} />
      </div>
    </div>
  )
}

function labelOf(data: HeatData): string {
  return `Reward distribution over ${formatCount(data.steps.length)} steps, scores ${data.rows.at(-1)} to ${data.rows[0]}`
}

function draw(canvas: HTMLCanvasElement, data: HeatData): void {
  const { width, height } = canvas.getBoundingClientRect()
  const ratio = devicePixelRatio
  canvas.width = Math.round(width * ratio)
  canvas.height = Math.round(height * ratio)
  const context = canvas.getContext('2d')
  if (context === null) return
  context.fillStyle = getComputedStyle(canvas).color
  for (const cell of data.cells) {
    context.globalAlpha = cell.fill
    // Cell edges are rounded to pixels, so that no seams show between cells.
    const left = Math.round(cell.x * canvas.width)
    const top = Math.round(cell.y * canvas.height)
    const right = Math.round((cell.x + cell.width) * canvas.width)
    const bottom = Math.round((cell.y + cell.height) * canvas.height)
    context.fillRect(left, top, right - left, bottom - top)
  }
}
