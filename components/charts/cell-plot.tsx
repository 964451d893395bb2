'use client'

import {
  type MouseEvent,
  type PointerEvent,
  type ReactNode,
  type RefObject,
  useEffect,
  useRef,
  useState,
} from 'react'
import type { Tick } from './ticks.ts'

/** A position in the chart, as shares of its width and height from the top left. */
export interface Place {
  x: number
  y: number
}

/** The position of an event in the chart. Click handlers also need it, because a tap sends no pointer move. */
export function placeOf(event: MouseEvent<Element>): Place {
  const box = event.currentTarget.getBoundingClientRect()
  return {
    x: (event.clientX - box.left) / box.width,
    y: (event.clientY - box.top) / box.height,
  }
}

export function usePlace(): {
  place: Place | null
  handlers: {
    onPointerMove(event: PointerEvent<Element>): void
    onPointerLeave(): void
  }
} {
  const [place, setPlace] = useState<Place | null>(null)
  return {
    place,
    handlers: {
      onPointerMove(event) {
        setPlace(placeOf(event))
      },
      onPointerLeave: () => setPlace(null),
    },
  }
}

/**
 * A canvas that is drawn again when its data, its size or the theme changes. `draw` must be the same function on every
 * render.
 */
export function useDrawing<T>(
  draw: (canvas: HTMLCanvasElement, data: T) => void,
  data: T,
): RefObject<HTMLCanvasElement | null> {
  const canvas = useRef<HTMLCanvasElement>(null)
  useEffect(() => {
    const element = canvas.current
    if (element === null) return
    const redraw = () => draw(element, data)
    redraw()
    const size = new ResizeObserver(redraw)
    size.observe(element)
    // Colors are read while drawing, so a theme change needs a redraw.
    const theme = new MutationObserver(redraw)
    theme.observe(document.documentElement, { attributes: true, attributeFilter: ['data-theme'] })
    const system = matchMedia('(prefers-color-scheme: dark)')
    system.addEventListener('change', redraw)
    return () => {
      size.disconnect()
      theme.disconnect()
      system.removeEventListener('change', redraw)
    }
  }, [draw, data])
  return canvas
}

type Ticks = readonly Tick[]

/** Row labels on the left of a chart. The parent sets their position and width. */
export function SideTicks({ ticks }: { ticks: Ticks }) {
  return ticks.map((tick) => (
    <span
      key={tick.label}
      className="num absolute right-0 -translate-y-1/2 text-2xs text-ink-3"
      style={{ top: `${tick.at * 100}%` }}
    >
      {tick.label}
    </span>
  ))
}

/** Column labels below a chart. The parent sets their position and width. */
export function FootTicks({ ticks }: { ticks: Ticks }) {
  return ticks.map((tick) => (
    <span
      key={tick.label}
      className="num absolute -translate-x-1/2 whitespace-nowrap text-2xs text-ink-3"
      style={{ left: `${tick.at * 100}%` }}
    >
      {tick.label}
    </span>
  ))
}

export function TipAt({ place, children }: { place: Place; children: ReactNode }) {
  return (
    <div
      className="pointer-events-none absolute z-10 whitespace-nowrap"
      style={{
        top: `${place.y * 100}%`,
        ...(place.x > 0.5
          ? { right: `${(1 - place.x) * 100}%`, marginRight: 12 }
          : { left: `${place.x * 100}%`, marginLeft: 12 }),
      }}
    >
      {children}
    </div>
  )
}
