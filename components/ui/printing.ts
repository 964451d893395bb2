'use client'

import { useSyncExternalStore } from 'react'
import { flushSync } from 'react-dom'

let printing = false
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
  // The browser captures the page as soon as this function returns.
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
    // The print preview of developer tools changes the medium without an event.
    matchMedia('print').addEventListener('change', ({ matches }) => turn(matches))
  }
  listeners.add(listener)
  return () => listeners.delete(listener)
}

/** True from just before printing until it is done. */
export function usePrinting(): boolean {
  return useSyncExternalStore(
    subscribe,
    () => printing,
    () => false,
  )
}
