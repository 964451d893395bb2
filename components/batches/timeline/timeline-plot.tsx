'use client'

import {
  type KeyboardEvent,
  type PointerEvent,
  useCallback,
  useEffect,
  useMemo,
  useRef,
  useState,
} from 'react'
import { durationText } from '../../format/numbers.ts'
import { canvasPainter, openCanvas } from './canvas-painter.ts'
import { type Density, prepareDensity } from './density.ts'
import { drawDensity, type Sheet, sheetFor } from './draw-density.ts'
import {
  AXIS_PX,
  drawBackdrop,
  drawFrame,
  drawGutter,
  drawRows,
  drawThinStragglers,
  HEAD_PX,
  MIN_ROW_PX,
  placer,
  rowLook,
  type TimelineScene,
} from './draw-timeline.ts'
import type { Painter } from './painter.ts'
import { plotStep } from './plot-keys.ts'
import { layoutPlot, RIGHT_PX } from './plot-layout.ts'
import { type Pointed, PointedTip } from './pointed-tip.tsx'
import {
  clampWindow,
  panWindow,
  type TimeScale,
  type TimeWindow,
  zoomWindow,
} from './time-scale.ts'
import type { TimelineData } from './timeline.prepare.ts'
import type { SampleMark } from './timeline-model.ts'
import { useDrawing } from './use-drawing.ts'
import { useLook } from './use-look.ts'
import { useWidth } from './use-width.ts'

/** Hit radius of a marker. */
const NEAR_PX = 9
/** Pointer movements shorter than this count as a click. */
const CLICK_PX = 6

/** Identifies a group or sample across updates, which create new row objects. */
interface PointedId {
  no: number
  index: number | null
}

/**
 * Rows of groups over time, on two canvases: one for the data, and one above it for the hovered and selected groups.
 * The scroll container holds an element as high as all rows; the canvases are as high as the visible part.
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
  /** Whether rows are readable and scroll. Otherwise all rows are shown at once. */
  readable: boolean
  inOrder: boolean
  label: string
  onZoom(window: TimeWindow | null): void
  /** Called with the group or sample selected by key or click; null if the selection is cleared. */
  onPoint(pointed: Pointed | null): void
  onOpen(pointed: Pointed): void
}) {
  const scroller = useRef<HTMLDivElement>(null)
  const base = useRef<HTMLCanvasElement>(null)
  const over = useRef<HTMLCanvasElement>(null)
  const width = useWidth(scroller)
  const look = useLook(scroller)
  const [scrollPx, setScrollPx] = useState(0)
  const [hovered, setHovered] = useState<(PointedId & { x: number; y: number }) | null>(null)
  const [reached, setReached] = useState<PointedId | null>(null)
  const [selection, setSelection] = useState<{ fromX: number; toX: number } | null>(null)
  const layout = useMemo(
    () => layoutPlot(data.rows.length, readable, width),
    [data.rows.length, readable, width],
  )
  const { rowPx, plotPx, gutterPx } = layout
  const height = HEAD_PX + plotPx + AXIS_PX
  const scene = useMemo(
    (): TimelineScene => ({
      ...{ data, scale, window: shown, nowMs, rowPx, inOrder },
      scrollPx: layout.fits ? 0 : scrollPx,
      plot: {
        x: gutterPx,
        y: HEAD_PX,
        width: Math.max(40, width - gutterPx - RIGHT_PX),
        height: plotPx,
      },
    }),
    [data, scale, shown, nowMs, rowPx, scrollPx, inOrder, gutterPx, width, plotPx, layout.fits],
  )
  const { plot } = scene
  const rowOf = useMemo(() => new Map(data.rows.map((row, at) => [row.track.no, at])), [data])
  const find = (id: PointedId | null): (Pointed & { at: number }) | null => {
    const at = id === null ? undefined : rowOf.get(id.no)
    const row = at === undefined ? undefined : data.rows[at]
    if (row === undefined || at === undefined) return null
    return { row, at, mark: row.track.samples.find((mark) => mark.index === id?.index) ?? null }
  }
  const focus = find(reached)
  const pointed = find(hovered ?? reached)

  const { named } = layout
  const kept = useRef<{ density: Density | null; sheet: Sheet | null }>({
    density: null,
    sheet: null,
  })
  useDrawing(
    useCallback(() => {
      if (base.current === null || look === null || width === 0) return
      const context = openCanvas(base.current, width, height)
      if (context === null) return
      const painter = canvasPainter(context, look.inks, look.fonts)
      drawBackdrop(painter, scene)
      if (scene.rowPx < MIN_ROW_PX) {
        const { x } = placer(scene)
        const { plot, data } = scene
        const now = scene.nowMs ?? scene.scale.spanMs
        const of = (ms: number) => x(ms) - plot.x
        const density = prepareDensity(data.rows, plot, of, now, kept.current.density)
        const sheet = sheetFor(density, kept.current.sheet)
        kept.current = { density, sheet }
        drawDensity(context, sheet, density, plot, look.inks)
        drawThinStragglers(painter, scene)
      } else drawRows(painter, scene)
      drawFrame(painter, scene)
      drawGutter(painter, scene, named)
    }, [scene, look, width, height, named]),
  )

  const hoverAt = pointed !== null && pointed.row !== focus?.row ? pointed : null
  useEffect(() => {
    if (over.current === null || look === null || width === 0) return
    const context = openCanvas(over.current, width, height)
    if (context === null) return
    const painter = canvasPainter(context, look.inks, look.fonts)
    if (focus !== null) drawPointed(painter, scene, focus.at, focus.mark, true)
    if (hoverAt !== null) drawPointed(painter, scene, hoverAt.at, hoverAt.mark, false)
    if (selection !== null) drawSelection(painter, scene, selection)
  })

  // Reports the selection also when its row has changed, for example because its group has completed.
  const reported = useRef<Pointed | null>(null)
  useEffect(() => {
    if (focus?.row === reported.current?.row && focus?.mark === reported.current?.mark) return
    reported.current = focus
    onPoint(focus)
  })

  // React adds wheel listeners as passive, so they cannot keep a pinch from zooming the page. This listener is added
  // directly.
  const wheel = useRef<(event: WheelEvent) => void>(() => {})
  wheel.current = (event) => {
    const { x, ms } = placer(scene)
    const at = event.clientX - (scroller.current?.getBoundingClientRect().left ?? 0)
    if (event.ctrlKey || event.metaKey) {
      event.preventDefault()
      const factor = Math.exp(Math.max(-60, Math.min(60, event.deltaY)) * 0.01)
      onZoom(zoomWindow(shown, scale, factor, ms(within(at))))
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

  const within = (x: number) => Math.max(plot.x, Math.min(plot.x + plot.width, x))
  const placeOf = (event: PointerEvent) => {
    const box = event.currentTarget.getBoundingClientRect()
    return { x: event.clientX - box.left, y: event.clientY - box.top }
  }
  const under = (x: number, y: number): PointedId | null => {
    if (y < plot.y || y >= plot.y + plot.height || x < 0) return null
    const row = data.rows[Math.floor((y - plot.y + scene.scrollPx) / rowPx)]
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
  const onPointerDown = (event: PointerEvent) => {
    const { x, y } = placeOf(event)
    if (event.button !== 0 || x !== within(x) || y > plot.y + plot.height) return
    event.currentTarget.setPointerCapture(event.pointerId)
    setSelection({ fromX: x, toX: x })
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
  const onPointerUp = (event: PointerEvent) => {
    if (selection === null) return
    setSelection(null)
    const { x, y } = placeOf(event)
    if (Math.abs(x - selection.fromX) <= CLICK_PX) {
      setReached(under(x, y))
      return
    }
    const { ms } = placer(scene)
    const [from, to] = [selection.fromX, x].map(within).sort((a, b) => a - b) as [number, number]
    onZoom(clampWindow({ fromMs: ms(from), toMs: ms(to) }, scale))
    setHovered(null)
  }

  const reach = (at: number, mark: SampleMark | null) => {
    const row = data.rows[at]
    if (row === undefined) return
    setHovered(null)
    setReached({ no: row.track.no, index: mark?.index ?? null })
    const element = scroller.current
    if (element !== null && !layout.fits) {
      const top = at * rowPx
      if (top < element.scrollTop) element.scrollTop = top
      else if (top + rowPx > element.scrollTop + plotPx) element.scrollTop = top + rowPx - plotPx
    }
    if (shown === null || mark === null) return
    if (mark.endedMs >= shown.fromMs && mark.endedMs <= shown.toMs) return
    const half = (shown.toMs - shown.fromMs) / 2
    onZoom(clampWindow({ fromMs: mark.endedMs - half, toMs: mark.endedMs + half }, scale))
  }
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return
    const mark = focus?.mark ?? null
    const step = plotStep(event.key, event.shiftKey, data.rows, focus?.at ?? -1, mark)
    if (step === null) return
    event.preventDefault()
    if (step.do === 'reach') reach(step.at, step.mark)
    else if (step.do === 'zoom') onZoom(zoomWindow(shown, scale, step.factor, mark?.endedMs))
    else if (step.do === 'pan') onZoom(panWindow(shown, scale, step.share))
    else if (step.do === 'whole') onZoom(null)
    else if (step.do === 'leave') setReached(null)
    else if (focus !== null) onOpen(focus)
  }

  const dragged = selection !== null && Math.abs(selection.toX - selection.fromX) > CLICK_PX
  return (
    <div className="relative">
      <div
        ref={scroller}
        role="application"
        // biome-ignore lint/a11y/noNoninteractiveTabindex: it handles keys, which the text below the plot describes
        tabIndex={0}
        aria-label={label}
        aria-describedby="timeline-keys"
        data-timeline
        className={`relative cursor-crosshair touch-pan-y select-none ${layout.fits ? 'overflow-hidden' : 'overflow-x-hidden overflow-y-auto'}`}
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
        <div style={{ height: height + (layout.fits ? 0 : data.rows.length * rowPx - plotPx) }}>
          <div className="sticky top-0" style={{ height }}>
            <canvas ref={base} aria-hidden className="absolute inset-0" style={{ width, height }} />
            <canvas ref={over} aria-hidden className="absolute inset-0" style={{ width, height }} />
          </div>
        </div>
      </div>
      {hovered !== null && pointed !== null && selection === null && (
        <PointedTip
          pointed={pointed}
          isStraggler={data.stragglers.has(pointed.row.track.no)}
          x={hovered.x}
          y={hovered.y}
          width={width}
          height={height}
        />
      )}
      {dragged && <SelectionWords scene={scene} selection={selection} />}
    </div>
  )
}

function SelectionWords({
  scene,
  selection: { fromX, toX },
}: {
  scene: TimelineScene
  selection: { fromX: number; toX: number }
}) {
  const { ms } = placer(scene)
  const text = (x: number) => durationText(Math.max(0, ms(x)))
  return (
    <span
      className="num pointer-events-none absolute top-0 -translate-x-1/2 rounded-md border border-line-strong bg-raised px-2 py-0.5 text-xs whitespace-nowrap shadow-pop"
      style={{ left: Math.max(70, (fromX + toX) / 2) }}
    >
      {text(Math.min(fromX, toX))} to {text(Math.max(fromX, toX))}
    </span>
  )
}

/** Draws the hovered row and the marker of the hovered sample. `strong` draws them as selected. */
function drawPointed(
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

function drawSelection(
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
