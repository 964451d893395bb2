'use client'

import { useSyncExternalStore } from 'react'

const never = () => () => {}

/** The modifier key of shortcuts on this platform, with a trailing space where it is a word. */
export function useModifier(): string {
  return useSyncExternalStore(
    never,
    () => (/Mac|iPhone|iPad/.test(navigator.userAgent) ? '⌘' : 'Ctrl '),
    () => 'Ctrl ',
  )
}
