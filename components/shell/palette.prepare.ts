/** One thing the palette can go to. */
export interface PaletteEntry {
  id: string
  kind: 'page' | 'batch' | 'run' | 'server' | 'sample'
  label: string
  /** Lighter text beside the label. */
  about: string
  href: string
}

/**
 * The entries that fit what was typed, best first: those that begin with it, then those that hold it, then
 * those that hold its letters in order. A batch or sample id that is not in the list is offered as typed.
 */
export function matchEntries(
  entries: readonly PaletteEntry[],
  typed: string,
  most = 12,
): PaletteEntry[] {
  const query = typed.trim().toLowerCase()
  if (query === '') return entries.slice(0, most)
  const scored = entries
    .map((entry) => ({ entry, score: rank(entry, query) }))
    .filter(({ score }) => score > 0)
    .sort((a, b) => b.score - a.score)
    .map(({ entry }) => entry)
  const direct = directEntry(query)
  const found =
    direct === null || scored.some((entry) => entry.href === direct.href)
      ? scored
      : [direct, ...scored]
  return found.slice(0, most)
}

function rank(entry: PaletteEntry, query: string): number {
  const label = entry.label.toLowerCase()
  if (label === query) return 5
  if (label.startsWith(query)) return 4
  if (label.includes(query)) return 3
  if (entry.about.toLowerCase().includes(query)) return 2
  return holdsInOrder(label, query) ? 1 : 0
}

function holdsInOrder(text: string, letters: string): boolean {
  let at = 0
  for (const letter of letters) {
    at = text.indexOf(letter, at) + 1
    if (at === 0) return false
  }
  return true
}

function directEntry(query: string): PaletteEntry | null {
  if (/^b\d{1,18}$/.test(query)) {
    return {
      id: query,
      kind: 'batch',
      label: query,
      about: 'open this batch',
      href: `/batches/${query}`,
    }
  }
  if (/^b\d{1,18}-\d{1,9}$/.test(query)) {
    const batch = query.slice(0, query.indexOf('-'))
    return {
      id: query,
      kind: 'sample',
      label: query,
      about: 'open this sample',
      href: `/samples?batch=${batch}&sample=${query}`,
    }
  }
  return null
}
