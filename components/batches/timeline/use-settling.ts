'use client'

import { useCallback, useEffect, useRef, useState } from 'react'

/** The URL updates after this delay: browsers reject more than about a hundred changes in 30 s. */
const SETTLE_MS = 250

/** A value that changes locally at once and is stored once it settles; an external change (the back button) wins. */
export function useSettling<T>(kept: T, keep: (value: T) => void): [T, (value: T) => void] {
  const [moving, setMoving] = useState<{ value: T } | null>(null)
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined)
  const last = useRef(keep)
  last.current = keep
  useEffect(() => () => clearTimeout(timer.current), [])
  const known = JSON.stringify(kept)
  // Kept until the stored value has changed, which happens a few frames after the update.
  // biome-ignore lint/correctness/useExhaustiveDependencies: the effect depends on the change itself
  useEffect(() => {
    if (timer.current === undefined) setMoving(null)
  }, [known])
  const set = useCallback((value: T) => {
    setMoving({ value })
    clearTimeout(timer.current)
    timer.current = setTimeout(() => {
      timer.current = undefined
      last.current(value)
    }, SETTLE_MS)
  }, [])
  return [moving === null ? kept : moving.value, set]
}
