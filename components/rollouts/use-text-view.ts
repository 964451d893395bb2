'use client'

import { useSyncExternalStore } from 'react'

export type TextView = 'rendered' | 'raw'

const KEY = 'rewardops-text-view'
const listeners = new Set<() => void>()
/** The view selected on this page, for browsers without storage. */
let chosen: TextView | null = null

function read(): TextView {
  if (chosen !== null) return chosen
  try {
    return localStorage.getItem(KEY) === 'raw' ? 'raw' : 'rendered'
  } catch {
    return 'rendered'
  }
}

export function setTextView(view: TextView): void {
  chosen = view
  try {
    if (view === 'rendered') localStorage.removeItem(KEY)
    else localStorage.setItem(KEY, view)
  } catch {
    // Without storage the choice lasts as long as the page.
  }
  for (const listener of listeners) listener()
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener)
  return () => listeners.delete(listener)
}

export function useTextView(): TextView {
  return useSyncExternalStore(subscribe, read, () => 'rendered')
}
