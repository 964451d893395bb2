import {
  AXIS_PX,
  drawBackdrop,
  drawFrame,
  drawGutter,
  drawRows,
  HEAD_PX,
  NAMED_ROW_PX,
  type TimelineScene,
} from './draw-timeline.ts'
import type { Painter } from './painter.ts'
import { stragglerCauses, WAIT_CAUSES } from './timeline.prepare.ts'
import { CAUSE_WORDS } from './timeline-words.ts'

export interface PictureWords {
  title: string
  lines: readonly string[]
}

const WIDTH = 1_280
const EDGE = 24
const TITLE_PX = 26
const LINE_PX = 18
const LEGEND_PX = 30
/**
 * Target height of all rows together, px. Each row is 1 to `MAX_ROW_PX` high, so a few rows take less height and many
 * rows take more.
 */
const ROWS_PX = 480
const MAX_ROW_PX = 18

/**
 * Lays out the exported image: every row of the view, with title and legend. Rows are at least one pixel high, so 2,000
 * groups take at least 2,000 pixels. The smaller `width` (pixels) is, the larger the text is in print.
 */
export function pictureScene(
  scene: Omit<TimelineScene, 'plot' | 'rowPx' | 'scrollPx'>,
  words: PictureWords,
  width = WIDTH,
): { scene: TimelineScene; width: number; height: number } {
  const rows = Math.max(1, scene.data.rows.length)
  const rowPx = Math.max(1, Math.min(MAX_ROW_PX, ROWS_PX / rows))
  const named = rowPx >= NAMED_ROW_PX
  const x = EDGE + (named ? 152 : 46)
  const y = EDGE + TITLE_PX + words.lines.length * LINE_PX + HEAD_PX + 6
  const plot = { x, y, width: width - x - EDGE - 14, height: rows * rowPx }
  return {
    scene: { ...scene, plot, rowPx, scrollPx: 0 },
    width,
    height: Math.ceil(y + plot.height + AXIS_PX + LEGEND_PX + EDGE / 2),
  }
}

export function drawPicture(
  p: Painter,
  { scene, width, height }: ReturnType<typeof pictureScene>,
  words: PictureWords,
): void {
  p.boxes([0, 0, width, height], 'surface')
  p.text(EDGE, EDGE + 8, words.title, { ink: 'ink', sizePx: 16, bold: true })
  words.lines.forEach((line, i) => {
    p.text(EDGE, EDGE + TITLE_PX + i * LINE_PX + 7, line, { ink: 'ink-2', sizePx: 12 })
  })
  drawBackdrop(p, scene)
  drawRows(p, scene)
  drawFrame(p, scene)
  drawGutter(p, scene, scene.rowPx >= NAMED_ROW_PX)
  drawLegend(p, scene, EDGE, height - EDGE / 2 - 10)
}

function drawLegend(p: Painter, { data, nowMs }: TimelineScene, fromX: number, y: number): void {
  let x = fromX
  const entry = (text: string, wide: number, draw: (x: number) => void) => {
    draw(x)
    p.text(x + wide + 6, y, text, { ink: 'ink-2' })
    x += wide + 6 + text.length * 5.9 + 18
  }
  entry('Group, first dispatch to completion', 18, (at) => p.boxes([at, y - 2, 18, 4], 'bar', 0.34))
  if (nowMs !== null) entry('Running', 18, (at) => p.boxes([at, y - 2, 18, 4], 'bar', 0.16))
  entry('Sample finished', 8, (at) => p.dots([at + 4, y], 3.2, 'mark'))
  if (data.failed > 0) entry('Failed', 8, (at) => p.failures([at + 4, y], 7))
  const causes = stragglerCauses(data)
  for (const cause of WAIT_CAUSES)
    if (causes.has(cause))
      entry(`Straggler delay: ${CAUSE_WORDS[cause].word}`, 14, (at) =>
        p.boxes([at, y - 2, 14, 4], cause),
      )
}
