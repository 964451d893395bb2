'use client'

import { useSyncExternalStore } from 'react'
import { type HueKind, hueOf, ownHue } from './hue.ts'

const nothing = () => () => {}

/**
 * The color of a name. Before hydration, it is the hashed hue of the name, afterwards the hue stored in this browser.
 */
export function useHue(kind: HueKind, name: string): string {
  return useSyncExternalStore(
    nothing,
    () => hueOf(kind, name),
    () => ownHue(name),
  )
}
