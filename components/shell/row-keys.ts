'use client'

import { useKeys } from './keys.tsx'

/** Rows of the tables of a page, without their heads. */
const ROWS = '#page tbody tr, #page [role="rowgroup"] > [role="row"]'

/** The first link of each visible row, or the first button of a row without links. */
function rowTargets(): { row: HTMLElement; target: HTMLElement }[] {
  return [...document.querySelectorAll<HTMLElement>(ROWS)].flatMap((row) => {
    const target =
      row.querySelector<HTMLElement>('a[href]') ??
      row.querySelector<HTMLElement>('button:not(:disabled, [role="columnheader"] *)')
    return target?.checkVisibility() ? [{ row, target }] : []
  })
}

/**
 * Moves the focus to the next or the previous row, or to the first row from outside the rows. Returns false if there is
 * no such row.
 */
export function focusRow(by: 1 | -1): boolean {
  const rows = rowTargets()
  const at = rows.findIndex(({ row }) => row.contains(document.activeElement))
  const next = at < 0 ? rows[0] : rows[at + by]
  if (next === undefined) return false
  next.target.focus({ preventScroll: true })
  // The sticky header would cover a row at the upper edge.
  next.row.scrollIntoView({ block: by === 1 && at >= 0 ? 'nearest' : 'center' })
  return true
}

/**
 * Binds `j` and `k`, which move the focus by rows, so that the first result of a list is one key away instead of 31 to
 * 55 presses of Tab. Keys that a page binds win, because a page is mounted later.
 */
export function RowKeys(): null {
  useKeys([
    { key: 'j', label: 'Next row', group: 'Everywhere', run: () => focusRow(1) },
    { key: 'k', label: 'Previous row', group: 'Everywhere', run: () => focusRow(-1) },
  ])
  return null
}
