'use client'

import { useSyncExternalStore } from 'react'

const never = () => () => {}

export function useModifier(): string {
  return useSyncExternalStore(
    never,
    () => (/Mac|iPhone|iPad/.test(navigator.userAgent) ? '⌘' : 'Ctrl '),
    () => 'Ctrl ',
  )
}
