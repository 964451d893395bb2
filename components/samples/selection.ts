import type { SampleFilter } from '../../server/wire/sample-filter.ts'

/** What is done with: samples by their ids, or all that fit a filter. */
export type Target = { ids: readonly string[] } | { filter: SampleFilter }

/** Samples chosen in the table. `all`: every one that fits, also those that are not loaded. */
export interface Selected {
  /** What the list showed when they were chosen: another list begins anew. */
  key: string
  ids: ReadonlySet<string>
  all: boolean
  /** The one that was toggled last, from which a range goes. */
  last: string | null
}

/** Rows that can be chosen one by one; more are meant by "all that fit". */
export const MOST_CHOSEN = 1_000

/** Nothing chosen. */
export function noneSelected(key: string): Selected {
  return { key, ids: new Set(), all: false, last: null }
}

/** One row more or less; with `range` all between it and the last one. */
export function toggled(
  selected: Selected,
  rows: readonly { id: string }[],
  id: string,
  range: boolean,
): Selected {
  // "All" is left by taking one away: the rows that are loaded stay chosen.
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
  return { ...selected, ids: new Set([...ids].slice(0, MOST_CHOSEN)), all: false, last: id }
}

/** All rows that are loaded, or none of them. */
export function toggledShown(selected: Selected, rows: readonly { id: string }[]): Selected {
  const whole = selected.all || rows.every((row) => selected.ids.has(row.id))
  return {
    ...selected,
    all: false,
    ids: whole ? new Set() : new Set(rows.slice(0, MOST_CHOSEN).map((row) => row.id)),
  }
}
