'use client'

import { useSyncExternalStore } from 'react'

const never = () => () => {}

/** The command key of this platform, as a prefix. */
export function useModifier(): string {
  return useSyncExternalStore(
    never,
    () => (/Mac|iPhone|iPad/.test(navigator.userAgent) ? '⌘' : 'Ctrl '),
    () => 'Ctrl ',
  )
}
