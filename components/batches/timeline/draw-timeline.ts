import { partitionPoint } from '../../charts/partition-point.ts'
import { linearTicks, TIME_STEPS_MS } from '../../charts/ticks.ts'
import { durationText, formatCount } from '../../format/numbers.ts'
import { shortenMiddle } from '../../format/text.ts'
import type { Box, Painter } from './painter.ts'
import type { TimeScale, TimeWindow } from './time-scale.ts'
import {
  type TimelineData,
  type TimelineRow,
  WAIT_CAUSES,
  type WaitCause,
} from './timeline.prepare.ts'
import { CAUSE_WORDS } from './timeline-words.ts'

/** A timeline to draw; sizes are in pixels. */
export interface TimelineScene {
  data: TimelineData
  scale: TimeScale
  window: TimeWindow | null
  /** The time up to which running groups are drawn, ms; null when no group runs. */
  nowMs: number | null
  plot: Box
  rowPx: number
  scrollPx: number
  /** Whether rows are in completion order. Mini-batch boundaries are drawn only then. */
  inOrder: boolean
}

/** Height of the area above the rows, with the mini-batch labels. */
export const HEAD_PX = 18
/** Height of the area below the rows, with the time axis. */
export const AXIS_PX = 22
/** Rows thinner than this are aggregated. */
export const MIN_ROW_PX = 1
/** Rows of at least this height have labels. */
export const NAMED_ROW_PX = 13
/** Maximum number of mini-batch lines. With more mini-batches, no lines are drawn. */
export const MAX_MINI_BATCHES = 200

export function placer(scene: Pick<TimelineScene, 'scale' | 'window' | 'plot'>) {
  const { scale, window, plot } = scene
  const from = scale.at(window?.fromMs ?? 0)
  const to = window === null ? scale.length : scale.at(window.toMs)
  const perUnit = plot.width / Math.max(to - from, 1e-9)
  return {
    x: (ms: number) => plot.x + (scale.at(ms) - from) * perUnit,
    ms: (x: number) => scale.ms(from + (x - plot.x) / perUnit),
  }
}

/** Ticks at round times in the window, at least about 84 px apart and outside collapsed ranges. */
function sceneTicks(scene: TimelineScene): { x: number; label: string }[] {
  const { scale, window, plot } = scene
  const { x } = placer(scene)
  const fromMs = window?.fromMs ?? 0
  const toMs = window?.toMs ?? scale.spanMs
  const shown = scale.at(toMs) - scale.at(fromMs)
  const most = Math.max(2, Math.floor(plot.width / 84))
  const step =
    TIME_STEPS_MS.find((each) => shown / each <= most) ?? (TIME_STEPS_MS.at(-1) as number)
  const ticks: { x: number; label: string }[] = []
  let after = Number.NEGATIVE_INFINITY
  for (let at = Math.ceil(fromMs / step) * step; at <= toMs; at += step) {
    const inside = scale.breaks.find((each) => at > each.fromMs && at < each.toMs)
    if (inside) {
      at = Math.floor(inside.toMs / step) * step
      continue
    }
    const place = x(at)
    if (place - after < 44) continue
    after = place
    ticks.push({ x: place, label: at === 0 ? '0' : tickText(at, step) })
  }
  return ticks
}

function tickText(ms: number, stepMs: number): string {
  if (ms >= 1_000 && ms < 60_000) {
    const digits = stepMs >= 1_000 ? 0 : stepMs >= 100 ? 1 : stepMs >= 10 ? 2 : 3
    return `${(ms / 1_000).toFixed(digits)}\u00a0s`
  }
  if (ms >= 60_000 && stepMs < 1_000) {
    const digits = stepMs >= 100 ? 1 : stepMs >= 10 ? 2 : 3
    const minutes = Math.floor(ms / 60_000)
    return `${minutes}:${((ms % 60_000) / 1_000).toFixed(digits).padStart(digits + 3, '0')}`
  }
  return durationText(ms).replace(/\.0+(?=\D)/, '')
}

/** Draws the time grid and the collapsed ranges behind the rows. */
export function drawBackdrop(p: Painter, scene: TimelineScene): void {
  const { plot } = scene
  const bottom = plot.y + plot.height
  p.lines(
    sceneTicks(scene).flatMap(({ x }) => [x, plot.y, x, bottom]),
    'line',
  )
  const { x } = placer(scene)
  const stripes = scene.scale.breaks.flatMap((each) => {
    const [from, to] = [x(each.fromMs), x(each.toMs)]
    return to < plot.x || from > plot.x + plot.width ? [] : [from, plot.y, to - from, plot.height]
  })
  p.clipped(plot, () => p.boxes(stripes, 'line', 0.55))
}

/** Draws the mini-batches, the breaks of the axis at collapsed ranges, and the axis, all in front of the rows. */
export function drawFrame(p: Painter, scene: TimelineScene): void {
  const { plot, data, rowPx } = scene
  const { x } = placer(scene)
  const bottom = plot.y + plot.height
  const right = plot.x + plot.width
  const lines = data.miniBatches.length > MAX_MINI_BATCHES ? [] : data.miniBatches
  const steps: number[] = []
  const risers: number[] = []
  let labelEnd = Number.NEGATIVE_INFINITY
  const labels: (() => void)[] = []
  for (const each of lines) {
    const at = x(each.readyMs)
    if (scene.inOrder) {
      const y = plot.y + rowsUpTo(data.rows, each.toSeq) * rowPx - scene.scrollPx
      if (y >= plot.y && y <= bottom) steps.push(plot.x, y, Math.min(right, at), y)
    }
    if (at < plot.x - 0.5 || at > right + 0.5) continue
    risers.push(at, plot.y, at, bottom)
    const label = `${each.no} · ${durationText(each.readyMs)}`
    const width = label.length * 5.8
    const start = Math.min(at - width / 2, right - width)
    if (start < Math.max(labelEnd + 10, plot.x - 30)) continue
    labelEnd = start + width
    labels.push(() => p.text(start, plot.y - 9, label, { ink: 'ink-2' }))
  }
  p.lines(steps, 'ink-3', { dash: true })
  p.lines(risers, 'ink-3', { dash: true })
  for (const draw of labels) draw()
  drawBreaks(p, scene)
  p.lines([plot.x, bottom, right, bottom], 'line-strong')
  for (const tick of sceneTicks(scene))
    p.text(Math.min(Math.max(tick.x, plot.x + 3), right - 2), bottom + 12, tick.label, {
      ink: 'ink-3',
      align: tick.x > right - 20 ? 'end' : tick.x < plot.x + 12 ? 'start' : 'middle',
    })
}

/** Counts the rows with a completion number up to `seq`. `rows` must be in completion order. */
function rowsUpTo(rows: readonly TimelineRow[], seq: number): number {
  return partitionPoint(
    rows.length,
    (index) => (rows[index]?.track.seq || Number.POSITIVE_INFINITY) <= seq,
  )
}

function drawBreaks(p: Painter, scene: TimelineScene): void {
  const { plot } = scene
  const { x } = placer(scene)
  const bottom = plot.y + plot.height
  for (const each of scene.scale.breaks) {
    const middle = (x(each.fromMs) + x(each.toMs)) / 2
    if (middle < plot.x || middle > plot.x + plot.width) continue
    p.boxes([middle - 3, bottom - 4, 6, 8], 'surface')
    p.lines(
      [
        middle - 5,
        bottom + 4,
        middle - 1,
        bottom - 4,
        middle + 1,
        bottom + 4,
        middle + 5,
        bottom - 4,
      ],
      'ink-2',
      { width: 1.25 },
    )
    const text = `${durationText(each.toMs - each.fromMs)} idle`
    const half = text.length * 2.9
    const at = Math.min(Math.max(middle, plot.x + half), plot.x + plot.width - half)
    p.boxes([at - half - 3, bottom - 21, half * 2 + 6, 15], 'surface', 0.9)
    p.text(at, bottom - 13, text, { ink: 'ink-2', align: 'middle' })
  }
}

/** Sizes of bars and markers in a row of `rowPx`. `dotPx` is null if the row is too thin for dots. */
export function rowLook(rowPx: number) {
  return {
    barPx: rowPx >= 10 ? Math.min(6, rowPx * 0.34) : Math.max(0.75, rowPx * 0.6),
    dotPx: rowPx >= 10 ? Math.min(3.4, rowPx * 0.22) : null,
    markPx: Math.max(1, Math.min(rowPx * 0.85, 6)),
  }
}

export function drawRows(p: Painter, scene: TimelineScene): void {
  const { data, plot, rowPx, scrollPx } = scene
  const { x } = placer(scene)
  const look = rowLook(rowPx)
  const [left, right] = [plot.x, plot.x + plot.width]
  const first = Math.max(0, Math.floor(scrollPx / rowPx))
  const last = Math.min(data.rows.length, Math.ceil((scrollPx + plot.height) / rowPx))
  const bars: number[] = []
  const running: number[] = []
  const scored: number[] = []
  const failed: number[] = []
  const tails: Record<WaitCause, number[]> = { queue: [], router: [], service: [], retry: [] }
  const rings: Record<WaitCause, number[]> = { queue: [], router: [], service: [], retry: [] }
  const delayLabels: (() => void)[] = []
  for (let i = first; i < last; i++) {
    const row = data.rows[i] as TimelineRow
    const y = plot.y + (i + 0.5) * rowPx - scrollPx
    const bar = (from: number, to: number, into: number[]) => {
      const [a, b] = [Math.max(left - 2, from), Math.min(right + 2, to)]
      if (b >= a) into.push(a, y - look.barPx / 2, Math.max(1.5, b - a), look.barPx)
    }
    if (row.startMs !== null && (row.endMs !== null || scene.nowMs !== null))
      bar(
        x(row.startMs),
        x(row.endMs ?? (scene.nowMs as number)),
        row.endMs === null ? running : bars,
      )
    for (const mark of row.track.samples) {
      const at = x(mark.endedMs)
      if (at < left - 4 || at > right + 4) continue
      if (mark.reason !== null) failed.push(at, y)
      else if (look.dotPx !== null) scored.push(at, y)
      else scored.push(at - 0.75, y - look.markPx / 2, 1.5, look.markPx)
    }
    if (row.cause === null || row.last === null || !data.stragglers.has(row.track.no)) continue
    const end = x(row.last.endedMs)
    bar(x(row.last.endedMs - row.stragglerDelayMs), end, tails[row.cause])
    if (end >= left - 4 && end <= right + 4) rings[row.cause].push(end, y)
    if (rowPx >= NAMED_ROW_PX)
      delayLabels.push(() => drawDelay(p, row, x(row.startMs ?? 0), end, y, left, right))
  }
  p.clipped({ ...plot, x: left - 5, width: plot.width + 10 }, () => {
    p.boxes(bars, 'bar', 0.34)
    p.boxes(running, 'bar', 0.16)
    for (const cause of WAIT_CAUSES) p.boxes(tails[cause], cause)
    if (look.dotPx === null) p.boxes(scored, 'mark', rowPx < 3 ? 0.75 : 0.9)
    else p.dots(scored, look.dotPx, 'mark')
    p.failures(failed, look.dotPx === null ? Math.max(2.5, look.markPx) : 7)
    for (const cause of WAIT_CAUSES) {
      if (look.dotPx !== null) p.rings(rings[cause], look.dotPx + 2.2, cause)
      else p.boxes(squares(rings[cause], Math.max(3, look.markPx)), cause)
    }
    for (const drawLabel of delayLabels) drawLabel()
  })
}

function drawDelay(
  p: Painter,
  row: TimelineRow,
  start: number,
  end: number,
  y: number,
  left: number,
  right: number,
): void {
  if (row.cause === null || end < left || end > right) return
  const text = `+${durationText(row.stragglerDelayMs)} ${CAUSE_WORDS[row.cause].word}`
  const width = text.length * 5.8
  if (end + 10 + width < right) p.text(end + 10, y, text, { ink: 'ink-2' })
  else if (start - 8 - width > left) p.text(start - 8, y, text, { ink: 'ink-2', align: 'end' })
}

function squares(centers: readonly number[], size: number): number[] {
  const flat: number[] = []
  for (let i = 0; i < centers.length; i += 2)
    flat.push((centers[i] as number) - size / 2, (centers[i + 1] as number) - size / 2, size, size)
  return flat
}

export function drawThinStragglers(p: Painter, scene: TimelineScene): void {
  const { data, plot, rowPx } = scene
  const { x } = placer(scene)
  p.clipped(plot, () => {
    for (const cause of WAIT_CAUSES) {
      const boxes: number[] = []
      data.rows.forEach((row, i) => {
        if (row.cause !== cause || row.last === null || !data.stragglers.has(row.track.no)) return
        const y = plot.y + (i + 0.5) * rowPx
        const from = x(row.last.endedMs - row.stragglerDelayMs)
        boxes.push(from, y - 0.5, Math.max(2, x(row.last.endedMs) - from), 1)
      })
      p.boxes(boxes, cause)
    }
  })
}

export function drawGutter(p: Painter, scene: TimelineScene, wide: boolean): void {
  const { data, plot, rowPx, scrollPx } = scene
  if (rowPx < NAMED_ROW_PX) {
    for (const tick of linearTicks(data.rows.length)) {
      if (tick.at > data.rows.length || tick.at === 0) continue
      const y = plot.y + tick.at * rowPx - scrollPx
      const seq = scene.inOrder ? data.rows[tick.at - 1]?.track.seq : 0
      const label = seq ? formatCount(seq) : tick.label
      p.text(plot.x - 8, Math.min(y, plot.y + plot.height - 5), label, {
        ...{ ink: 'ink-3', align: 'end' },
      })
    }
    p.text(plot.x - 8, plot.y - 9, 'Groups', { ink: 'ink-3', align: 'end' })
    return
  }
  const first = Math.max(0, Math.floor(scrollPx / rowPx))
  const last = Math.min(data.rows.length, Math.ceil((scrollPx + plot.height) / rowPx))
  p.clipped({ x: 0, y: plot.y, width: plot.x, height: plot.height }, () => {
    for (let i = first; i < last; i++) {
      const { track } = data.rows[i] as TimelineRow
      const y = plot.y + (i + 0.5) * rowPx - scrollPx
      const number = track.seq > 0 ? formatCount(track.seq) : '–'
      p.text(wide ? 34 : plot.x - 8, y, number, { ink: 'ink-3', align: 'end' })
      if (wide) p.text(44, y, shortenMiddle(track.uid, 15), { ink: 'ink-2', mono: true })
    }
  })
}
