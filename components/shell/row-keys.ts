'use client'

import { useKeys } from './keys.tsx'

const ROWS = '#page tbody tr, #page [role="rowgroup"] > [role="row"], #page [data-row]'

function targetIn(row: HTMLElement): HTMLElement | null {
  return (
    row.querySelector<HTMLElement>('a[href]') ??
    row.querySelector<HTMLElement>('button:not(:disabled, [role="columnheader"] *)')
  )
}

/**
 * The visible rows, each with the element that takes the focus. A focusable row that is still loading takes the focus
 * itself.
 */
function rowTargets(): { row: HTMLElement; target: HTMLElement }[] {
  return [...document.querySelectorAll<HTMLElement>(ROWS)].flatMap((row) => {
    const target = targetIn(row) ?? (row.hasAttribute('tabindex') ? row : null)
    return target?.checkVisibility() ? [{ row, target }] : []
  })
}

function focusWhenLoaded(row: HTMLElement): void {
  const observer = new MutationObserver(() => {
    const target = targetIn(row)
    if (document.activeElement === row) target?.focus({ preventScroll: true })
    if (document.activeElement !== row) observer.disconnect()
  })
  observer.observe(row, { childList: true, subtree: true })
}

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
 * Binds `j` and `k` to the next and the previous row. The first result of a list is then one key away instead of 31 to
 * 55 presses of Tab. If a page binds `j` and `k` itself, its bindings win, because the page is mounted later.
 */
export function RowKeys(): null {
  useKeys([
    { key: 'j', label: 'Next row', group: 'Everywhere', run: () => focusRow(1) },
    { key: 'k', label: 'Previous row', group: 'Everywhere', run: () => focusRow(-1) },
  ])
  return null
}
