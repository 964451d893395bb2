'use client'

import { useSyncExternalStore } from 'react'
import { type HueKind, hueOf, ownHue } from './hue.ts'

const nothing = () => () => {}

/** The colour of a name. Until the page is in its browser, which remembers what it gave, the one of its letters. */
export function useHue(kind: HueKind, name: string): string {
  return useSyncExternalStore(
    nothing,
    () => hueOf(kind, name),
    () => ownHue(name),
  )
}
