import { durationText } from '../../format/numbers.ts'
import { placer, rowLook, type TimelineScene } from './draw-timeline.ts'
import type { Painter } from './painter.ts'
import type { SampleMark } from './timeline-model.ts'

/** Draws the hovered row and the marker of the hovered sample; `strong` for the keyboard selection. */
export function drawPointed(
  p: Painter,
  scene: TimelineScene,
  at: number,
  mark: SampleMark | null,
  strong: boolean,
): void {
  const { plot, rowPx, scrollPx, data } = scene
  const row = data.rows[at]
  if (row === undefined) return
  const { x } = placer(scene)
  const y = plot.y + (at + 0.5) * rowPx - scrollPx
  const ink = strong ? 'accent' : 'ink'
  p.clipped({ x: 0, y: plot.y, width: plot.x + plot.width + 14, height: plot.height }, () => {
    const thick = Math.max(3, rowPx)
    p.boxes([0, y - thick / 2, plot.x + plot.width, thick], ink, strong ? 0.1 : 0.06)
    if (strong) p.boxes([0, y - thick / 2, 2.5, thick], 'accent')
  })
  if (mark === null) return
  const place = x(mark.endedMs)
  if (place < plot.x || place > plot.x + plot.width) return
  p.lines([place, plot.y, place, plot.y + plot.height], 'ink-3', { dash: true })
  p.rings([place, y], Math.max(4.5, (rowLook(rowPx).dotPx ?? 2) + 2.5), ink)
  const text = durationText(mark.endedMs)
  const half = text.length * 3 + 5
  const middle = Math.min(Math.max(place, half), plot.x + plot.width + 12 - half)
  p.boxes([middle - half, plot.y + plot.height + 3, half * 2, 18], ink)
  p.text(middle, plot.y + plot.height + 12, text, { ink: 'surface', align: 'middle' })
}

/** Draws the time range being selected. */
export function drawSelection(
  p: Painter,
  { plot }: TimelineScene,
  { fromX, toX }: { fromX: number; toX: number },
): void {
  const from = Math.max(plot.x, Math.min(fromX, toX))
  const to = Math.min(plot.x + plot.width, Math.max(fromX, toX))
  if (to - from < 2) return
  p.boxes([from, plot.y, to - from, plot.height], 'accent', 0.14)
  p.lines(
    [from, plot.y, from, plot.y + plot.height, to, plot.y, to, plot.y + plot.height],
    'accent',
  )
}
