'use client'

import { useRef } from 'react'
import { useNow } from '../live/live-provider.tsx'

/** Number of readings in a trail: one per second for a minute. */
export const TRAIL_LENGTH = 60

/** Adds a reading for each second that passed; unobserved seconds are gaps. */
export function extendTrail(
  trail: readonly (number | null)[],
  secondsPassed: number,
  reading: number | null,
): (number | null)[] {
  if (secondsPassed <= 0) return [...trail]
  const gaps = Math.min(secondsPassed - 1, TRAIL_LENGTH)
  return [...trail, ...Array<null>(gaps).fill(null), reading].slice(-TRAIL_LENGTH)
}

/** The readings of a figure over the last minute, as far as the page observed them. */
export function useTrail(reading: number | null): readonly (number | null)[] {
  const second = Math.floor(useNow() / 1000)
  const kept = useRef<{ second: number; trail: (number | null)[] }>({
    second: 0,
    trail: Array<null>(TRAIL_LENGTH).fill(null),
  })
  if (second > kept.current.second) {
    const passed = kept.current.second === 0 ? 1 : second - kept.current.second
    kept.current = { second, trail: extendTrail(kept.current.trail, passed, reading) }
  }
  return kept.current.trail
}
