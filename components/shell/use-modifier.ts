'use client'

import { useSyncExternalStore } from 'react'

const never = () => () => {}

/** The command key as it is printed on this keyboard, ready to be put before a letter. */
export function useModifier(): string {
  return useSyncExternalStore(
    never,
    () => (/Mac|iPhone|iPad/.test(navigator.userAgent) ? '⌘' : 'Ctrl '),
    () => 'Ctrl ',
  )
}
