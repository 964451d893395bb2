'use client'

import { useKeys } from './keys.tsx'

/** Table rows of a page, except header rows, and list items with `data-row`. */
const ROWS = '#page tbody tr, #page [role="rowgroup"] > [role="row"], #page [data-row]'

/** The first link of a row, or the first button of a row without links. */
function targetIn(row: HTMLElement): HTMLElement | null {
  return (
    row.querySelector<HTMLElement>('a[href]') ??
    row.querySelector<HTMLElement>('button:not(:disabled, [role="columnheader"] *)')
  )
}

/** The target of each visible row. A focusable row that is still loading is its own target. */
function rowTargets(): { row: HTMLElement; target: HTMLElement }[] {
  return [...document.querySelectorAll<HTMLElement>(ROWS)].flatMap((row) => {
    const target = targetIn(row) ?? (row.hasAttribute('tabindex') ? row : null)
    return target?.checkVisibility() ? [{ row, target }] : []
  })
}

/** Moves the focus from a row to its target when the row has loaded. */
function focusWhenLoaded(row: HTMLElement): void {
  const observer = new MutationObserver(() => {
    const target = targetIn(row)
    if (document.activeElement === row) target?.focus({ preventScroll: true })
    if (document.activeElement !== row) observer.disconnect()
  })
  observer.observe(row, { childList: true, subtree: true })
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
  if (next.target === next.row) focusWhenLoaded(next.row)
  // The sticky header would cover a row at the upper edge.
  next.row.scrollIntoView({ block: by === 1 && at >= 0 ? 'nearest' : 'center' })
  return true
}

/**
 * Binds `j` and `k`, which move the focus by rows, so that the first result of a list is one key away instead of 31 to
 * 55 presses of Tab. If a page binds `j` and `k` itself, its bindings win, because the page is mounted later.
 */
export function RowKeys(): null {
  useKeys([
    { key: 'j', label: 'Next row', group: 'Everywhere', run: () => focusRow(1) },
    { key: 'k', label: 'Previous row', group: 'Everywhere', run: () => focusRow(-1) },
  ])
  return null
}
