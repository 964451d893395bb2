/** Announces new rows of a live list instead of inserting them under the cursor. */

/**
 * Splits the rows of a list as it is now into those to show and those to announce. `before` are the rows
 * the reader has on the screen, in order; `more` says that the list goes on behind `rows`.
 *
 * Rows behind the last one known were reached by scrolling and belong to the list; rows before or between
 * known ones are new. A known row that is gone between others no longer fits the filter and goes; known
 * rows missing at the end of a list that goes on were only pushed off by new ones, and stay.
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
