'use client'

import { useCallback, useEffect, useRef, useState } from 'react'

/** The address follows once something rests: browsers refuse more than about a hundred changes in half a minute. */
const SETTLE_MS = 250

/** A value that changes at once here and is kept elsewhere once it rests; a change from there (the back button) wins. */
export function useSettling<T>(kept: T, keep: (value: T) => void): [T, (value: T) => void] {
  const [moving, setMoving] = useState<{ value: T } | null>(null)
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined)
  const last = useRef(keep)
  last.current = keep
  useEffect(() => () => clearTimeout(timer.current), [])
  const known = JSON.stringify(kept)
  // Held until what is kept has changed: it does so some frames after it was told to.
  // biome-ignore lint/correctness/useExhaustiveDependencies: it is the change that counts
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
