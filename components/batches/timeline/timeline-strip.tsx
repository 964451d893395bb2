'use client'

import { type PointerEvent, useCallback, useRef, useState } from 'react'
import { openCanvas } from './canvas-painter.ts'
import type { Inks } from './painter.ts'
import { layoutPlot, RIGHT_PX } from './plot-layout.ts'
import { clampWindow, type TimeScale, type TimeWindow } from './time-scale.ts'
import type { TimelineData } from './timeline.prepare.ts'
import { useDrawing } from './use-drawing.ts'
import { useLook } from './use-look.ts'
import { useWidth } from './use-width.ts'

const HEIGHT = 30
/** Hit distance of a window edge. */
const EDGE_PX = 7

/**
 * An overview strip of the whole batch: samples finished over time, and the visible window. The window can be drawn,
 * moved and resized with the pointer here, and with the keyboard in the plot below.
 */
export function TimelineStrip({
  data,
  scale,
  window: shown,
  rows,
  readable,
  onZoom,
}: {
  data: TimelineData
  scale: TimeScale
  window: TimeWindow | null
  /** Number of rows and row mode of the plot below. The strip uses them to align its left edge with the plot. */
  rows: number
  readable: boolean
  onZoom(window: TimeWindow | null): void
}) {
  const holder = useRef<HTMLDivElement>(null)
  const canvas = useRef<HTMLCanvasElement>(null)
  const drag = useRef<{ kind: 'new' | 'move' | 'from' | 'to'; at: number; was: TimeWindow } | null>(
    null,
  )
  const look = useLook(holder)
  const outer = useWidth(holder)
  const { gutterPx } = layoutPlot(rows, readable, outer)
  const width = Math.max(0, outer - gutterPx - RIGHT_PX)
  const x = (ms: number) => (scale.at(ms) / scale.length) * width
  const ms = (at: number) => scale.ms((Math.max(0, Math.min(width, at)) / width) * scale.length)
  useDrawing(
    useCallback(() => {
      if (canvas.current === null || look === null || width === 0) return
      const context = openCanvas(canvas.current, width, HEIGHT)
      if (context !== null) drawStrip(context, width, data, scale, shown, look.inks)
    }, [data, scale, shown, look, width]),
  )

  const place = (event: PointerEvent) =>
    event.clientX - event.currentTarget.getBoundingClientRect().left
  const kindAt = (at: number) => {
    if (shown === null) return 'new'
    const [from, to] = [x(shown.fromMs), x(shown.toMs)]
    if (Math.abs(at - from) <= EDGE_PX) return 'from'
    if (Math.abs(at - to) <= EDGE_PX) return 'to'
    return at > from && at < to ? 'move' : 'new'
  }
  const [cursor, setCursor] = useState('cursor-crosshair')
  return (
    <div ref={holder} style={{ paddingLeft: gutterPx, paddingRight: RIGHT_PX }}>
      <div
        aria-hidden
        data-timeline-strip
        className={`relative touch-pan-y ${cursor}`}
        style={{ height: HEIGHT }}
        onPointerDown={(event) => {
          if (event.button !== 0) return
          event.currentTarget.setPointerCapture(event.pointerId)
          const at = place(event)
          const was = shown ?? { fromMs: 0, toMs: scale.spanMs }
          drag.current = { kind: kindAt(at), at, was }
        }}
        onPointerMove={(event) => {
          const at = place(event)
          const now = drag.current
          if (now === null) {
            const kind = kindAt(at)
            setCursor(
              kind === 'new'
                ? 'cursor-crosshair'
                : kind === 'move'
                  ? 'cursor-grab'
                  : 'cursor-ew-resize',
            )
            return
          }
          if (Math.abs(at - now.at) < 3) return
          if (now.kind === 'move') {
            const by = at - now.at
            const size = x(now.was.toMs) - x(now.was.fromMs)
            const from = Math.max(0, Math.min(width - size, x(now.was.fromMs) + by))
            onZoom(clampWindow({ fromMs: ms(from), toMs: ms(from + size) }, scale))
            return
          }
          const fixed =
            now.kind === 'new' ? now.at : now.kind === 'from' ? x(now.was.toMs) : x(now.was.fromMs)
          onZoom(
            clampWindow({ fromMs: ms(Math.min(fixed, at)), toMs: ms(Math.max(fixed, at)) }, scale),
          )
        }}
        onPointerUp={() => {
          drag.current = null
        }}
        onPointerCancel={() => {
          drag.current = null
        }}
        onDoubleClick={() => onZoom(null)}
      >
        <canvas ref={canvas} className="absolute inset-0" style={{ width, height: HEIGHT }} />
      </div>
    </div>
  )
}

function drawStrip(
  context: CanvasRenderingContext2D,
  width: number,
  data: TimelineData,
  scale: TimeScale,
  shown: TimeWindow | null,
  inks: Inks,
): void {
  const bins = endsPerBin(data, scale, Math.floor(width / 3))
  const x = (ms: number) => (scale.at(ms) / scale.length) * width
  const most = Math.max(1, ...bins.ends)
  const step = width / Math.max(1, bins.ends.length)
  const bar = (count: number, i: number, ink: string) => {
    if (count === 0) return
    // The height grows with the square root of the count, so that a few samples stay visible next to thousands.
    const tall = Math.max(1.5, Math.sqrt(count / most) * (HEIGHT - 4))
    context.fillStyle = ink
    context.fillRect(i * step, HEIGHT - tall, Math.max(1, step - 0.75), tall)
  }
  for (const [i, count] of bins.ends.entries()) bar(count, i, inks.mark)
  for (const [i, count] of bins.failed.entries()) bar(count, i, inks.bad)
  context.fillStyle = inks.line
  for (const each of scale.breaks)
    context.fillRect(x(each.fromMs), 0, x(each.toMs) - x(each.fromMs), HEIGHT)
  if (shown !== null) {
    const [from, to] = [x(shown.fromMs), x(shown.toMs)]
    context.globalAlpha = 0.72
    context.fillStyle = inks.surface
    context.fillRect(0, 0, from, HEIGHT)
    context.fillRect(to, 0, width - to, HEIGHT)
    context.globalAlpha = 1
    context.fillStyle = inks.accent
    for (const edge of [from, to]) {
      context.fillRect(edge - 1, 0, 2, HEIGHT)
      context.fillRect(edge - 2.5, HEIGHT / 2 - 6, 5, 12)
    }
  }
  context.fillStyle = inks['line-strong']
  context.fillRect(0, HEIGHT - 1, width, 1)
}

function endsPerBin(data: TimelineData, scale: TimeScale, count: number) {
  const ends = new Array<number>(Math.max(0, count)).fill(0)
  const failed = new Array<number>(Math.max(0, count)).fill(0)
  if (count > 0)
    for (const row of data.rows)
      for (const mark of row.track.samples) {
        const bin = Math.min(count - 1, Math.floor((scale.at(mark.endedMs) / scale.length) * count))
        ends[bin] = (ends[bin] as number) + 1
        if (mark.reason !== null) failed[bin] = (failed[bin] as number) + 1
      }
  return { ends, failed }
}
