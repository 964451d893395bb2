'use client'

import { type RefObject, useEffect, useState } from 'react'
import { readLook } from './canvas-painter.ts'

type Look = ReturnType<typeof readLook>

/** Colours and fonts of the theme that holds; null before the page is in the browser. */
export function useLook(element: RefObject<HTMLElement | null>): Look | null {
  const [look, setLook] = useState<Look | null>(null)
  useEffect(() => {
    const read = () => element.current && setLook(readLook(element.current))
    read()
    const system = matchMedia('(prefers-color-scheme: dark)')
    system.addEventListener('change', read)
    const chosen = new MutationObserver(read)
    chosen.observe(document.documentElement, { attributeFilter: ['data-theme'] })
    // Canvas draws with what is there: once more when the fonts have come.
    void document.fonts?.ready.then(read)
    return () => {
      system.removeEventListener('change', read)
      chosen.disconnect()
    }
  }, [element])
  return look
}
