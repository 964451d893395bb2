'use client'

import { type RefObject, useEffect, useState } from 'react'
import { readLook } from './canvas-painter.ts'

type Look = ReturnType<typeof readLook>

/** Colors and fonts of the current theme; null before hydration. */
export function useLook(element: RefObject<HTMLElement | null>): Look | null {
  const [look, setLook] = useState<Look | null>(null)
  useEffect(() => {
    const read = () => element.current && setLook(readLook(element.current))
    read()
    const system = matchMedia('(prefers-color-scheme: dark)')
    system.addEventListener('change', read)
    const chosen = new MutationObserver(read)
    chosen.observe(document.documentElement, { attributeFilter: ['data-theme'] })
    // A canvas draws only with loaded fonts, so the look is read again when they arrive.
    void document.fonts?.ready.then(read)
    return () => {
      system.removeEventListener('change', read)
      chosen.disconnect()
    }
  }, [element])
  return look
}
