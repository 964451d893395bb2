'use client'

import { type KeyboardEvent, type PointerEvent, useEffect, useMemo, useRef, useState } from 'react'
import { durationText } from '../../format/numbers.ts'
import { canvasPainter, openCanvas } from './canvas-painter.ts'
import { prepareDensity } from './density.ts'
import { drawDensity } from './draw-density.ts'
import { drawPointed, drawSelection } from './draw-pointed.ts'
import {
  AXIS_PX,
  drawBackdrop,
  drawFrame,
  drawGutter,
  drawRows,
  drawThinStragglers,
  HEAD_PX,
  placer,
  THINNEST_ROW_PX,
  type TimelineScene,
} from './draw-timeline.ts'
import { PointedTip } from './pointed-tip.tsx'
import {
  clampWindow,
  panWindow,
  type TimeScale,
  type TimeWindow,
  zoomWindow,
} from './time-scale.ts'
import type { TimelineData, TimelineRow } from './timeline.prepare.ts'
import type { SampleMark } from './timeline-model.ts'
import { useLook } from './use-look.ts'

/** Height of the rows when all are shown at once, and of a row that can be read. */
const FIT_PX = 360
const READ_ROW_PX = 18
const MOST_READ_PX = 450
/** A mark this far from the pointer is meant. */
const NEAR_PX = 9

/** A group, or a sample of it, that is pointed at. */
export interface Pointed {
  row: TimelineRow
  mark: SampleMark | null
}

interface PointedId {
  no: number
  index: number | null
}

/**
 * Rows of groups over time, on canvas: one for what changes with the data, one above it for what follows the pointer
 * and the keys. The scroller is as high as all rows, the canvas as high as what is in sight.
 */
export function TimelinePlot({
  data,
  scale,
  window: shown,
  nowMs,
  readable,
  inOrder,
  label,
  onZoom,
  onPoint,
  onOpen,
}: {
  data: TimelineData
  scale: TimeScale
  window: TimeWindow | null
  nowMs: number | null
  /** Rows high enough to be read, scrolled; else all at once. */
  readable: boolean
  inOrder: boolean
  label: string
  onZoom(window: TimeWindow | null): void
  /** What the keys or a click have reached; null: nothing. */
  onPoint(pointed: Pointed | null): void
  onOpen(pointed: Pointed): void
}) {
  const scroller = useRef<HTMLDivElement>(null)
  const base = useRef<HTMLCanvasElement>(null)
  const over = useRef<HTMLCanvasElement>(null)
  const [width, setWidth] = useState(0)
  const [scrollPx, setScrollPx] = useState(0)
  const [hovered, setHovered] = useState<(PointedId & { x: number; y: number }) | null>(null)
  const [reached, setReached] = useState<PointedId | null>(null)
  const [selection, setSelection] = useState<{ fromX: number; toX: number } | null>(null)
  const look = useLook(scroller)
  const rows = data.rows.length
  const read = readable || rows * READ_ROW_PX <= FIT_PX
  const rowPx = read ? READ_ROW_PX : FIT_PX / rows
  const plotPx = Math.max(72, Math.min(read ? MOST_READ_PX : FIT_PX, rows * rowPx))
  const wide = width >= 640
  const gutter = read && wide ? 152 : 46
  const scene = useMemo(
    (): TimelineScene => ({
      ...{ data, scale, window: shown, nowMs, rowPx, scrollPx, inOrder },
      plot: { x: gutter, y: HEAD_PX, width: Math.max(40, width - gutter - 14), height: plotPx },
    }),
    [data, scale, shown, nowMs, rowPx, scrollPx, inOrder, gutter, width, plotPx],
  )
  const rowOf = useMemo(
    () => new Map(data.rows.map((row, i) => [row.track.no, i] as const)),
    [data],
  )
  const find = (id: PointedId | null): (Pointed & { at: number }) | null => {
    const at = id === null ? undefined : rowOf.get(id.no)
    const row = at === undefined ? undefined : data.rows[at]
    if (row === undefined || at === undefined) return null
    return { row, at, mark: row.track.samples.find((mark) => mark.index === id?.index) ?? null }
  }

  useEffect(() => {
    const element = scroller.current
    if (element === null) return
    const observer = new ResizeObserver(() => setWidth(element.clientWidth))
    observer.observe(element)
    return () => observer.disconnect()
  }, [])

  useEffect(() => {
    if (base.current === null || look === null || width === 0) return
    const context = openCanvas(base.current, width, HEAD_PX + plotPx + AXIS_PX)
    if (context === null) return
    const painter = canvasPainter(context, look.inks, look.fonts)
    drawBackdrop(painter, scene)
    if (rowPx < THINNEST_ROW_PX) {
      const { x } = placer(scene)
      const density = prepareDensity(
        data.rows,
        scene.plot,
        (ms) => x(ms) - scene.plot.x,
        nowMs ?? scale.spanMs,
      )
      drawDensity(context, density, scene.plot, look.inks)
      drawThinStragglers(painter, scene)
    } else drawRows(painter, scene)
    drawFrame(painter, scene)
    drawGutter(painter, scene, wide)
  }, [scene, look, width, plotPx, rowPx, data, nowMs, scale, wide])

  const pointed = find(hovered ?? reached)
  const focus = find(reached)
  useEffect(() => {
    if (over.current === null || look === null || width === 0) return
    const context = openCanvas(over.current, width, HEAD_PX + plotPx + AXIS_PX)
    if (context === null) return
    const painter = canvasPainter(context, look.inks, look.fonts)
    if (focus !== null) drawPointed(painter, scene, focus.at, focus.mark, true)
    if (pointed !== null && pointed.row !== focus?.row)
      drawPointed(painter, scene, pointed.at, pointed.mark, false)
    if (selection !== null) drawSelection(painter, scene, selection)
  })

  // What is reached is told as it is now: it may end while it is looked at.
  const told = useRef<string>('')
  useEffect(() => {
    const now =
      focus === null
        ? ''
        : `${focus.row.track.no} ${focus.mark?.index} ${focus.row.endMs} ${focus.row.track.samples.length}`
    if (now === told.current) return
    told.current = now
    onPoint(focus)
  })

  // React listens to wheels passively, and then a pinch zooms the page as well.
  const wheel = useRef<(event: WheelEvent) => void>(() => {})
  wheel.current = (event) => {
    const { x, ms } = placer(scene)
    const at = event.clientX - (scroller.current?.getBoundingClientRect().left ?? 0)
    if (event.ctrlKey || event.metaKey) {
      event.preventDefault()
      const factor = Math.exp(Math.max(-60, Math.min(60, event.deltaY)) * 0.01)
      const inside = Math.max(scene.plot.x, Math.min(scene.plot.x + scene.plot.width, at))
      onZoom(zoomWindow(shown, scale, factor, ms(inside)))
    } else if (shown !== null) {
      const across = event.shiftKey && event.deltaX === 0 ? event.deltaY : event.deltaX
      if (Math.abs(across) <= Math.abs(event.shiftKey ? 0 : event.deltaY)) return
      event.preventDefault()
      onZoom(panWindow(shown, scale, across / (x(shown.toMs) - x(shown.fromMs))))
    }
  }
  useEffect(() => {
    const element = scroller.current
    const listen = (event: WheelEvent) => wheel.current(event)
    element?.addEventListener('wheel', listen, { passive: false })
    return () => element?.removeEventListener('wheel', listen)
  }, [])

  const placeOf = (event: PointerEvent) => {
    const box = event.currentTarget.getBoundingClientRect()
    return { x: event.clientX - box.left, y: event.clientY - box.top }
  }
  const under = (x: number, y: number): PointedId | null => {
    const { plot } = scene
    if (y < plot.y || y >= plot.y + plot.height || x < 0) return null
    const row = data.rows[Math.floor((y - plot.y + scrollPx) / rowPx)]
    if (row === undefined) return null
    const place = placer(scene)
    let index: number | null = null
    let near = NEAR_PX
    for (const mark of row.track.samples) {
      const far = Math.abs(place.x(mark.endedMs) - x)
      if (far <= near) {
        near = far
        index = mark.index
      }
    }
    return { no: row.track.no, index }
  }
  const onPointerMove = (event: PointerEvent) => {
    const { x, y } = placeOf(event)
    if (selection !== null) {
      setSelection({ ...selection, toX: x })
      return
    }
    const id = under(x, y)
    setHovered(id === null ? null : { ...id, x, y })
  }
  const onPointerDown = (event: PointerEvent) => {
    const { x, y } = placeOf(event)
    const { plot } = scene
    if (event.button !== 0 || x < plot.x || x > plot.x + plot.width || y > plot.y + plot.height)
      return
    event.currentTarget.setPointerCapture(event.pointerId)
    setSelection({ fromX: x, toX: x })
  }
  const onPointerUp = (event: PointerEvent) => {
    const { x, y } = placeOf(event)
    if (selection === null) return
    setSelection(null)
    if (Math.abs(selection.toX - selection.fromX) > 6) {
      const { ms } = placer(scene)
      const clamp = (at: number) =>
        Math.max(scene.plot.x, Math.min(scene.plot.x + scene.plot.width, at))
      const [a, b] = [selection.fromX, selection.toX].map(clamp).sort((c, d) => c - d)
      onZoom(clampWindow({ fromMs: ms(a as number), toMs: ms(b as number) }, scale))
      setHovered(null)
    } else setReached(under(x, y))
  }

  const reach = (at: number, mark: SampleMark | null) => {
    const row = data.rows[at]
    if (row === undefined) return
    setHovered(null)
    setReached({ no: row.track.no, index: mark?.index ?? null })
    const element = scroller.current
    if (element !== null && read) {
      const top = at * rowPx
      if (top < element.scrollTop) element.scrollTop = top
      else if (top + rowPx > element.scrollTop + plotPx) element.scrollTop = top + rowPx - plotPx
    }
    if (
      shown !== null &&
      mark !== null &&
      (mark.endedMs < shown.fromMs || mark.endedMs > shown.toMs)
    ) {
      const half = (shown.toMs - shown.fromMs) / 2
      onZoom(clampWindow({ fromMs: mark.endedMs - half, toMs: mark.endedMs + half }, scale))
    }
  }
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return
    const handled = keyed(event.key, event.shiftKey)
    if (handled) event.preventDefault()
  }
  const keyed = (key: string, shift: boolean): boolean => {
    const at = focus?.at ?? -1
    const beside = (step: number) => {
      const samples = focus?.row.track.samples ?? []
      const from = focus?.mark ? samples.indexOf(focus.mark) : step > 0 ? -1 : samples.length
      const mark = samples[Math.max(0, Math.min(samples.length - 1, from + step))]
      if (focus === null) reach(0, null)
      else if (mark) reach(at, mark)
    }
    const rowTo = (to: number) => reach(Math.max(0, Math.min(rows - 1, to)), null)
    switch (key) {
      case 'ArrowDown':
        rowTo(at + 1)
        return true
      case 'ArrowUp':
        rowTo(at < 0 ? rows - 1 : at - 1)
        return true
      case 'PageDown':
        rowTo(at + 10)
        return true
      case 'PageUp':
        rowTo(at - 10)
        return true
      case 'Home':
        rowTo(0)
        return true
      case 'End':
        rowTo(rows - 1)
        return true
      case 'ArrowRight':
      case 'ArrowLeft': {
        const step = key === 'ArrowRight' ? 1 : -1
        if (shift) onZoom(panWindow(shown, scale, step * 0.25))
        else beside(step)
        return true
      }
      case '+':
      case '=':
        onZoom(zoomWindow(shown, scale, 0.5, focus?.mark?.endedMs))
        return true
      case '-':
        onZoom(zoomWindow(shown, scale, 2, focus?.mark?.endedMs))
        return true
      case '0':
        onZoom(null)
        return true
      case 'Enter':
        if (focus !== null) onOpen(focus)
        return focus !== null
      case 'Escape':
        if (reached === null) return false
        setReached(null)
        return true
      default:
        return false
    }
  }

  const height = HEAD_PX + plotPx + AXIS_PX
  return (
    <div className="relative">
      <div
        ref={scroller}
        role="application"
        // biome-ignore lint/a11y/noNoninteractiveTabindex: as above
        tabIndex={0}
        aria-label={label}
        aria-describedby="timeline-keys"
        data-timeline
        className="relative cursor-crosshair touch-pan-y overflow-x-hidden overflow-y-auto outline-offset-[-2px] select-none"
        style={{ height }}
        onScroll={(event) => setScrollPx(event.currentTarget.scrollTop)}
        onKeyDown={onKeyDown}
        onPointerMove={onPointerMove}
        onPointerDown={onPointerDown}
        onPointerUp={onPointerUp}
        onPointerCancel={() => setSelection(null)}
        onPointerLeave={() => setHovered(null)}
        onDoubleClick={() => onZoom(null)}
      >
        <div style={{ height: HEAD_PX + Math.max(plotPx, rows * rowPx) + AXIS_PX }}>
          <div className="sticky top-0" style={{ height }}>
            <canvas ref={base} aria-hidden className="absolute inset-0" style={{ width, height }} />
            <canvas ref={over} aria-hidden className="absolute inset-0" style={{ width, height }} />
          </div>
        </div>
      </div>
      {hovered !== null && pointed !== null && selection === null && (
        <PointedTip pointed={pointed} x={hovered.x} y={hovered.y} width={width} height={height} />
      )}
      {selection !== null && Math.abs(selection.toX - selection.fromX) > 6 && (
        <SelectionWords scene={scene} selection={selection} />
      )}
    </div>
  )
}

function SelectionWords({
  scene,
  selection,
}: {
  scene: TimelineScene
  selection: { fromX: number; toX: number }
}) {
  const { ms } = placer(scene)
  const [a, b] = [selection.fromX, selection.toX].sort((c, d) => c - d) as [number, number]
  return (
    <span
      className="num pointer-events-none absolute top-0 rounded-md border border-line-strong bg-raised px-2 py-0.5 text-xs shadow-pop"
      style={{ left: Math.max(0, (a + b) / 2 - 60) }}
    >
      {durationText(Math.max(0, ms(a)))} to {durationText(Math.max(0, ms(b)))}
    </span>
  )
}
