'use client'

import { formatCount, formatScore, percentText } from '../format/numbers.ts'
import { firstLine } from '../format/text.ts'
import { FootTicks, placeOf, TipAt, useDrawing, usePlace } from './cell-plot.tsx'
import { type PromptHeatData, promptAt } from './prompt-heat.prepare.ts'
import { Tip } from './tip.tsx'

const BOTTOM = 20
/** Minimum width of a group in its prompt's row, so that groups stay visible in a long run. */
const MIN_VISIT_PX = 3
/** Opacity of a group's rate in the space up to the prompt's next group. */
const CARRIED = 0.35

/** Prompts over steps, one per row. They are drawn on a canvas, because they have thousands of groups. */
export function PromptHeatPlot({
  data,
  passRates,
  onPrompt,
}: {
  data: PromptHeatData
  passRates: boolean
  onPrompt(key: string): void
}) {
  const canvas = useDrawing(draw, data)
  const { place, handlers } = usePlace()
  const found = place && promptAt(data, place.x, place.y)
  const text = passRates ? percentText : formatScore
  return (
    <div
      className="relative h-full select-none"
      role="img"
      aria-label={`${passRates ? 'Pass rates' : 'Mean scores'} of ${formatCount(data.rows.length)} prompts over ${formatCount(data.span)} steps, the ${passRates ? 'easiest' : 'highest'} on top`}
    >
      <div className="absolute top-2 right-3 left-0" style={{ bottom: BOTTOM }}>
        <canvas
          ref={canvas}
          className="size-full cursor-pointer border-b border-line-strong text-(--data-1)"
          {...handlers}
          onClick={(event) => {
            const { x, y } = placeOf(event)
            const clicked = promptAt(data, x, y)
            if (clicked) onPrompt(clicked.row.key)
          }}
        />
        {place && found && (
          <>
            <span
              aria-hidden
              className="pointer-events-none absolute inset-x-0 border-y border-ink-2"
              style={{
                top: `${(data.rows.indexOf(found.row) / data.rows.length) * 100}%`,
                height: `${100 / data.rows.length}%`,
              }}
            />
            <TipAt place={place}>
              <Tip
                title={shortText(found.row.promptId ?? firstLine(found.row.preview))}
                rows={[
                  {
                    label: `Step ${formatCount(found.row.steps[found.at] as number)}`,
                    value: text(found.row.rates[found.at] as number),
                  },
                  { label: 'Visits', value: formatCount(found.row.steps.length) },
                ]}
              />
            </TipAt>
          </>
        )}
      </div>
      <div className="absolute right-3 bottom-0 left-0 h-4">
        <FootTicks ticks={data.stepTicks} />
      </div>
    </div>
  )
}

function shortText(text: string): string {
  return text.length > 60 ? `${text.slice(0, 59)}…` : text
}

function draw(canvas: HTMLCanvasElement, { rows, cells }: PromptHeatData): void {
  const { width, height } = canvas.getBoundingClientRect()
  const ratio = devicePixelRatio
  canvas.width = Math.round(width * ratio)
  canvas.height = Math.round(height * ratio)
  const context = canvas.getContext('2d')
  if (context === null) return
  const { color: high, borderBottomColor: low } = getComputedStyle(canvas)
  const rowHeight = canvas.height / rows.length
  const gap = rowHeight > 4 * ratio ? ratio : 0
  const fill = (x: number, right: number, row: number, level: number, opacity: number) => {
    const top = Math.round(row * rowHeight)
    const bottom = Math.round((row + 1) * rowHeight) - gap
    // The high color is drawn over the low color, so that a rate of 0 is visible too.
    for (const [color, alpha] of [
      [low, opacity],
      [high, opacity * level],
    ] as const) {
      context.fillStyle = color
      context.globalAlpha = alpha
      context.fillRect(x, top, right - x, bottom - top)
    }
  }
  for (const { row, x, right, until, level } of cells) {
    const left = Math.round(x * canvas.width)
    const end = Math.max(left + MIN_VISIT_PX * ratio, Math.round(right * canvas.width))
    fill(left, end, row, level, 1)
    const carried = Math.round(until * canvas.width)
    if (carried > end) fill(end, carried, row, level, CARRIED)
  }
}
