import { NAMED_ROW_PX } from './draw-timeline.ts'

/** Height of the rows when all are shown at once, of a row that can be read, and of as many as are in sight. */
const FIT_PX = 360
const READ_ROW_PX = 18
const MOST_READ_PX = 450
/** Few groups are a few rows, not a few bars. */
const LEAST_PX = 72
/** Narrower plots have no room for the names of groups. */
const NAMED_WIDTH_PX = 640
/** Right of the rows: half a mark, and the last tick. */
export const RIGHT_PX = 14
/** Left of the rows: without names, with names. */
const GUTTER_PX = 46
const NAMED_GUTTER_PX = 152

/** Sizes of a plot, in pixels. */
export interface PlotLayout {
  rowPx: number
  plotPx: number
  gutterPx: number
  /** Names of groups are beside their rows, not only numbers. */
  named: boolean
  /** All rows are in sight: nothing scrolls. */
  fits: boolean
}

/** As many groups as have room in rows that can be read are shown so, whatever was asked for. */
export function layoutPlot(rows: number, readable: boolean, width: number): PlotLayout {
  const read = readable || rows * READ_ROW_PX <= FIT_PX
  const rowPx = read ? READ_ROW_PX : FIT_PX / Math.max(1, rows)
  const plotPx = Math.max(LEAST_PX, Math.min(read ? MOST_READ_PX : FIT_PX, rows * rowPx))
  const named = rowPx >= NAMED_ROW_PX && width >= NAMED_WIDTH_PX
  return {
    ...{ rowPx, plotPx, named },
    gutterPx: named ? NAMED_GUTTER_PX : GUTTER_PX,
    fits: rows * rowPx <= plotPx,
  }
}
