'use client'

import { type RefObject, useEffect, useState } from 'react'

/** The inner width of an element in pixels; 0 before it is measured. */
export function useWidth(element: RefObject<HTMLElement | null>): number {
  const [width, setWidth] = useState(0)
  useEffect(() => {
    const of = element.current
    if (of === null) return
    const observer = new ResizeObserver(() => setWidth(of.clientWidth))
    observer.observe(of)
    return () => observer.disconnect()
  }, [element])
  return width
}
