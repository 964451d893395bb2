import type { TimelineRow } from './timeline.prepare.ts'

/**
 * Rows thinner than a pixel, added up: how many groups are under way at each pixel, how many samples end there. Exact
 * counts, nothing is left out.
 */
export interface Density {
  width: number
  height: number
  /** Groups under way, row by row of pixels. */
  groups: Uint16Array
  /** Samples that ended, and those of them that failed. */
  ends: Uint16Array
  failed: Uint16Array
  /** Groups in each row of pixels. */
  perRow: Uint16Array
}

/** Adds rows up on `width` × `height` pixels; `x` places a moment, in pixels; running groups last until `nowMs`. */
export function prepareDensity(
  rows: readonly TimelineRow[],
  size: { width: number; height: number },
  x: (ms: number) => number,
  nowMs: number,
): Density {
  const width = Math.max(1, Math.floor(size.width))
  const height = Math.max(1, Math.floor(size.height))
  const groups = new Uint16Array(width * height)
  const ends = new Uint16Array(width * height)
  const failed = new Uint16Array(width * height)
  const perRow = new Uint16Array(height)
  const steps = new Int32Array(height * (width + 1))
  rows.forEach((row, i) => {
    const y = Math.min(height - 1, Math.floor((i * height) / rows.length))
    perRow[y] = (perRow[y] as number) + 1
    if (row.startMs !== null) {
      const from = Math.max(0, Math.floor(x(row.startMs)))
      const end = x(row.endMs ?? nowMs)
      const to = Math.min(width, Math.max(from + 1, Math.ceil(end)))
      if (from < width && end >= 0) {
        const base = y * (width + 1)
        steps[base + from] = (steps[base + from] as number) + 1
        steps[base + to] = (steps[base + to] as number) - 1
      }
    }
    for (const mark of row.track.samples) {
      const at = Math.floor(x(mark.endedMs))
      if (at < 0 || at > width) continue
      const cell = y * width + Math.min(at, width - 1)
      ends[cell] = (ends[cell] as number) + 1
      if (mark.reason !== null) failed[cell] = (failed[cell] as number) + 1
    }
  })
  for (let y = 0; y < height; y++) {
    let under = 0
    for (let column = 0; column < width; column++) {
      under += steps[y * (width + 1) + column] as number
      groups[y * width + column] = under
    }
  }
  return { width, height, groups, ends, failed, perRow }
}
