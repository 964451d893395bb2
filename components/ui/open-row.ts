'use client'

import { useRef } from 'react'

/** The open row of a list, or the one that was open last. */
export function useLastOpen(openId: string | null): string | null {
  const last = useRef(openId)
  if (openId !== null) last.current = openId
  return last.current
}

/**
 * The row that J (`by` 1) or K (-1) opens, counted from the row that is open or was open last (`at`, -1 if it is not
 * in the list). While no row is open, a key that would leave the list opens the last open row again.
 */
export function rowToOpen<T>(
  rows: readonly T[],
  at: number,
  by: 1 | -1,
  isOpen: boolean,
): T | undefined {
  if (at < 0) return rows[0]
  return rows[at + by] ?? (isOpen ? undefined : rows[at])
}
