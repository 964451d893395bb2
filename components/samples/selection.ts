import type { SampleFilter } from '../../server/contract/sample-filter.ts'

export type Target = { ids: readonly string[] } | { filter: SampleFilter }

/** The selected samples. `all` selects every matching sample, including those not loaded. */
export interface Selected {
  /** Identifies the list of the selection. Another list resets the selection. */
  key: string
  ids: ReadonlySet<string>
  all: boolean
  /** The last toggled sample. A range selection starts there. */
  last: string | null
}

/** Maximum number of samples that are selected by their ids. */
export const MAX_SELECTED = 1_000

export function noneSelected(key: string): Selected {
  return { key, ids: new Set(), all: false, last: null }
}

/** Toggles one sample, or with `range` all samples between it and the last toggled sample. */
export function toggled(
  selected: Selected,
  rows: readonly { id: string }[],
  id: string,
  range: boolean,
): Selected {
  // Deselecting one sample of `all` keeps only the other loaded samples selected.
  const ids = new Set(selected.all ? rows.map((row) => row.id) : selected.ids)
  const on = !ids.has(id)
  const [a, b] = [selected.last, id].map((one) => rows.findIndex((row) => row.id === one))
  const span =
    range && a !== undefined && b !== undefined && a >= 0 && b >= 0
      ? rows.slice(Math.min(a, b), Math.max(a, b) + 1).map((row) => row.id)
      : [id]
  for (const one of span) {
    if (on) ids.add(one)
    else ids.delete(one)
  }
  return { ...selected, ids: new Set([...ids].slice(0, MAX_SELECTED)), all: false, last: id }
}

/** Selects all loaded samples, at most {@link MAX_SELECTED}. If they are already selected, clears the selection. */
export function toggledShown(selected: Selected, rows: readonly { id: string }[]): Selected {
  const selectable = rows.slice(0, MAX_SELECTED)
  const whole = selected.all || selectable.every((row) => selected.ids.has(row.id))
  return {
    ...selected,
    all: false,
    ids: whole ? new Set() : new Set(selectable.map((row) => row.id)),
  }
}
