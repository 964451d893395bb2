'use client'

import { useEffect, useRef } from 'react'

/**
 * Draws before the next frame whenever `draw` is another function: not within React's own task, which is the longest
 * there is while a page is live.
 */
export function useDrawing(draw: () => void): void {
  const frame = useRef(0)
  useEffect(() => {
    frame.current = requestAnimationFrame(draw)
    return () => cancelAnimationFrame(frame.current)
  }, [draw])
}
