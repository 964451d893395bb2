'use client'

import { useEffect, useRef } from 'react'

/**
 * Draws before the next frame whenever `draw` changes. Drawing runs outside React's render task, which is already the
 * longest task of a live page.
 */
export function useDrawing(draw: () => void): void {
  const frame = useRef(0)
  useEffect(() => {
    frame.current = requestAnimationFrame(draw)
    return () => cancelAnimationFrame(frame.current)
  }, [draw])
}
