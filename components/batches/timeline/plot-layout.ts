import { NAMED_ROW_PX } from './draw-timeline.ts'

/** Height of all rows together when they are shown without scrolling, px. */
const FIT_PX = 360
/** Height of a readable row, and the maximum height of a plot of readable rows, px. */
const READ_ROW_PX = 18
const MAX_READ_PX = 450
const MIN_PX = 72
/** Plots narrower than this have no room for group names. */
const NAMED_WIDTH_PX = 640
/** Right margin, for half a marker and the last tick label. */
export const RIGHT_PX = 14
const GUTTER_PX = 46
const NAMED_GUTTER_PX = 152

interface PlotLayout {
  rowPx: number
  plotPx: number
  gutterPx: number
  /** Whether rows are labeled with group names as well as numbers. */
  named: boolean
  /** Whether all rows are visible without scrolling. */
  fits: boolean
}

export function layoutPlot(rows: number, readable: boolean, width: number): PlotLayout {
  const read = readable || rows * READ_ROW_PX <= FIT_PX
  const rowPx = read ? READ_ROW_PX : FIT_PX / Math.max(1, rows)
  const plotPx = Math.max(MIN_PX, Math.min(read ? MAX_READ_PX : FIT_PX, rows * rowPx))
  const named = rowPx >= NAMED_ROW_PX && width >= NAMED_WIDTH_PX
  return {
    ...{ rowPx, plotPx, named },
    gutterPx: named ? NAMED_GUTTER_PX : GUTTER_PX,
    fits: rows * rowPx <= plotPx,
  }
}
