'use client'

import { type RefObject, useEffect, useState } from 'react'

/** The width inside of an element, in pixels, as it changes; 0 before it is known. */
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
