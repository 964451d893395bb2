'use client'

import { useSyncExternalStore } from 'react'
import { flushSync } from 'react-dom'

/** Whether the page is being put on paper: parts that are drawn for paper alone are on it only so long. */
let printing = false
/** The theme chosen on the page, while paper has the light one. */
let themeBefore: string | undefined
const listeners = new Set<() => void>()

function turn(on: boolean): void {
  if (printing === on) return
  printing = on
  const root = document.documentElement
  if (on) {
    themeBefore = root.dataset.theme
    root.dataset.theme = 'light'
  } else if (themeBefore === undefined) delete root.dataset.theme
  else root.dataset.theme = themeBefore
  // The browser takes its picture as soon as this returns.
  flushSync(() => {
    for (const listener of listeners) listener()
  })
}

let watched = false

function subscribe(listener: () => void): () => void {
  if (!watched) {
    watched = true
    addEventListener('beforeprint', () => turn(true))
    addEventListener('afterprint', () => turn(false))
    // A print preview of developer tools changes the medium without an event of its own.
    matchMedia('print').addEventListener('change', ({ matches }) => turn(matches))
  }
  listeners.add(listener)
  return () => listeners.delete(listener)
}

/** True from just before the page is printed until it has been. */
export function usePrinting(): boolean {
  return useSyncExternalStore(
    subscribe,
    () => printing,
    () => false,
  )
}
