'use client'

import { useSyncExternalStore } from 'react'

const never = () => () => {}

/** The modifier key of shortcuts on this platform, as a prefix: `⌘` or `Ctrl `. */
export function useModifier(): string {
  return useSyncExternalStore(
    never,
    () => (/Mac|iPhone|iPad/.test(navigator.userAgent) ? '⌘' : 'Ctrl '),
    () => 'Ctrl ',
  )
}
