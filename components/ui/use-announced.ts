'use client'

import { useRef, useState } from 'react'

/**
 * Holds back rows that arrived after the list was opened.
 * @param listKey identifies the list by its filters; another key resets the hook
 * @param more whether the list continues after `rows`
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

/**
 * Splits the current rows of a live list into rows to show and new rows to announce, so that no row is inserted under
 * the cursor.
 * @param before the visible rows
 * @param more whether the list continues after `rows`
 */
export function announce<T>(
  rows: readonly T[],
  idOf: (row: T) => string,
  before: readonly T[],
  more: boolean,
): { shown: T[]; fresh: T[] } {
  const known = new Set(before.map(idOf))
  const present = new Set(rows.map(idOf))
  const lastKnown = rows.findLastIndex((row) => known.has(idOf(row)))
  const shown: T[] = []
  const fresh: T[] = []
  rows.forEach((row, i) => {
    if (i > lastKnown || known.has(idOf(row))) shown.push(row)
    else fresh.push(row)
  })
  if (more && lastKnown === rows.length - 1) {
    const lastPresent = before.findLastIndex((row) => present.has(idOf(row)))
    shown.push(...before.slice(lastPresent + 1))
  }
  return { shown, fresh }
}
