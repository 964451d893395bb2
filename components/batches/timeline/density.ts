import type { TimelineRow } from './timeline.prepare.ts'

/** Counts of groups in progress and of finished samples per pixel, for timeline rows that are thinner than a pixel. */
export interface Density {
  width: number
  height: number
  /** Groups in progress per pixel, row-major; each row has one cell more than the width. */
  groups: Int16Array
  ends: Uint16Array
  /** Failed samples per pixel, row-major. They also count in `ends`. */
  failed: Uint16Array
  /** Groups per row of pixels. */
  perRow: Uint16Array
}

/**
 * Aggregates rows onto `width` × `height` pixels. `x` maps a time to a pixel, and running groups extend to `nowMs`.
 * The buffers of `used` are reused, because allocating 2 MB three times a second keeps the garbage collector busy.
 */
export function prepareDensity(
  rows: readonly TimelineRow[],
  size: { width: number; height: number },
  x: (ms: number) => number,
  nowMs: number,
  used?: Density | null,
): Density {
  const density = emptyDensity(Math.floor(size.width), Math.floor(size.height), used)
  const { width, height, groups, ends, failed, perRow } = density
  const stride = width + 1
  rows.forEach((row, i) => {
    const y = Math.min(height - 1, Math.floor((i * height) / rows.length))
    perRow[y] = (perRow[y] as number) + 1
    if (row.startMs !== null) {
      const from = Math.max(0, Math.floor(x(row.startMs)))
      const end = x(row.endMs ?? nowMs)
      const to = Math.min(width, Math.max(from + 1, Math.ceil(end)))
      if (from < width && end >= 0) {
        groups[y * stride + from] = (groups[y * stride + from] as number) + 1
        groups[y * stride + to] = (groups[y * stride + to] as number) - 1
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
    for (let cell = y * stride; cell < (y + 1) * stride; cell++) {
      under += groups[cell] as number
      groups[cell] = under
    }
  }
  return density
}

function emptyDensity(width: number, height: number, used?: Density | null): Density {
  const [w, h] = [Math.max(1, width), Math.max(1, height)]
  if (used?.width === w && used.height === h) {
    for (const counts of [used.groups, used.ends, used.failed, used.perRow]) counts.fill(0)
    return used
  }
  return {
    ...{ width: w, height: h, groups: new Int16Array((w + 1) * h), ends: new Uint16Array(w * h) },
    failed: new Uint16Array(w * h),
    perRow: new Uint16Array(h),
  }
}
