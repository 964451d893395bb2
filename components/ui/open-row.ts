'use client'

import { useRef } from 'react'

export function useLastOpen(openId: string | null): string | null {
  const last = useRef(openId)
  if (openId !== null) last.current = openId
  return last.current
}

/**
 * Returns the row that J (`by` 1) or K (-1) opens.
 * @param at the row that is open or was open last; -1 if it is not in the list
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
