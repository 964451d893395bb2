'use client'

import { useRef, useState } from 'react'
import { announce } from './announced.ts'

/**
 * Holds back rows that arrived after the list was opened. `listKey` identifies the list (its filters); another key
 * resets it. `more`: the list continues after `rows`.
 */
export function useAnnounced<T>(
  rows: readonly T[] | undefined,
  idOf: (row: T) => string,
  listKey: string,
  more: boolean,
): { shown: readonly T[]; freshCount: number; showFresh(): void } {
  const kept = useRef<{ key: string; rows: readonly T[] | undefined; shown: T[]; fresh: T[] }>({
    key: '',
    rows: undefined,
    shown: [],
    fresh: [],
  })
  const [, drawAgain] = useState(0)
  if (rows !== undefined && (kept.current.key !== listKey || kept.current.rows !== rows)) {
    const before = kept.current.key === listKey ? kept.current.shown : []
    kept.current = { key: listKey, rows, ...announce(rows, idOf, before, more) }
  }
  return {
    shown: kept.current.key === listKey ? kept.current.shown : [],
    freshCount: kept.current.fresh.length,
    showFresh() {
      kept.current = { ...kept.current, shown: [...(rows ?? [])], fresh: [] }
      drawAgain((n) => n + 1)
    },
  }
}
