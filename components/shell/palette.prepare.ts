export interface PaletteEntry {
  id: string
  kind: 'page' | 'batch' | 'run' | 'server' | 'sample' | 'action'
  label: string
  about: string
  href: string | null
  /** In the syntax of `KeyBinding.key`. */
  keys?: string
  run?: () => void
}

/** Search results have no title and are sorted by match. */
interface PaletteSection {
  title: string | null
  entries: PaletteEntry[]
}

const MAX_RECENT = 5
const MAX_FOUND = 14

/**
 * Without a query, the sections are recently visited pages, actions of the current page, all pages, and global actions.
 * @param recent paths, newest first
 */
export function paletteSections(
  entries: readonly PaletteEntry[],
  typed: string,
  recent: readonly string[],
): PaletteSection[] {
  if (typed.trim() !== '') {
    const found = matchEntries(entries, typed, recent)
    return found.length === 0 ? [] : [{ title: null, entries: found }]
  }
  const visited = recent.flatMap((href) => {
    const entry = entries.find((each) => each.href === href) ?? directEntry(idOf(href))
    return entry === null || entry.kind === 'page' ? [] : [entry]
  })
  const kind = (wanted: PaletteEntry['kind'], about?: string) =>
    entries.filter((each) => each.kind === wanted && (about === undefined || each.about === about))
  return [
    { title: 'Recent', entries: visited.slice(0, MAX_RECENT) },
    { title: 'On this page', entries: kind('action', THIS_PAGE) },
    { title: 'Go to', entries: kind('page') },
    {
      title: 'Actions',
      entries: entries.filter(({ kind, about }) => kind === 'action' && about !== THIS_PAGE),
    },
  ].filter((section) => section.entries.length > 0)
}

export const THIS_PAGE = 'This page'

/**
 * Ranks by prefix of the label, prefix of a word, substring, then subsequence. A batch or sample ID that is not in the
 * list is offered as typed.
 */
export function matchEntries(
  entries: readonly PaletteEntry[],
  typed: string,
  recent: readonly string[] = [],
): PaletteEntry[] {
  const query = typed.trim().toLowerCase()
  if (query === '') return []
  const scored = entries
    .map((entry) => ({ entry, score: rankAll(entry, query) }))
    .filter(({ score }) => score > 0)
    .map(({ entry, score }) => ({ entry, score: score + visitBonus(entry, recent) }))
    .sort((a, b) => b.score - a.score || a.entry.label.length - b.entry.label.length)
    .map(({ entry }) => entry)
  const direct = directEntry(query)
  const found =
    direct === null || scored.some((entry) => entry.href === direct.href)
      ? scored
      : [direct, ...scored]
  return found.slice(0, MAX_FOUND)
}

/** A bonus for recent pages. It is smaller than the difference between two match classes, so it only breaks ties. */
function visitBonus(entry: PaletteEntry, recent: readonly string[]): number {
  const at = entry.href === null ? -1 : recent.indexOf(entry.href)
  return at === -1 ? 0 : 50 - at
}

function rankAll(entry: PaletteEntry, query: string): number {
  const whole = rank(entry, query)
  if (whole > 0 || !query.includes(' ')) return whole
  const parts = query.split(/\s+/).map((word) => rank(entry, word))
  return parts.every((part) => part > 0) ? Math.min(...parts) : 0
}

function rank(entry: PaletteEntry, query: string): number {
  const label = entry.label.toLowerCase()
  if (label === query) return 1_000
  if (label.startsWith(query)) return 800
  if (beginsWord(label, query)) return 600
  if (label.includes(query)) return 500
  const about = entry.about.toLowerCase()
  if (beginsWord(` ${about}`, query)) return 300
  return holdsInOrder(label, query) ? 100 : 0
}

function beginsWord(text: string, query: string): boolean {
  for (let at = text.indexOf(query); at !== -1; at = text.indexOf(query, at + 1)) {
    if (at > 0 && !/[\p{L}\p{N}]/u.test(text[at - 1] as string)) return true
  }
  return false
}

/** Whether a text contains the letters in this order. False for a single letter, which nearly every text contains. */
function holdsInOrder(text: string, letters: string): boolean {
  if (letters.length < 2) return false
  let at = 0
  for (const letter of letters) {
    at = text.indexOf(letter, at) + 1
    if (at === 0) return false
  }
  return true
}

function idOf(href: string): string {
  return decodeURIComponent(href.slice(href.lastIndexOf('/') + 1))
}

function directEntry(query: string): PaletteEntry | null {
  if (/^b\d{1,18}$/.test(query)) {
    return {
      id: query,
      kind: 'batch',
      label: query,
      about: 'View batch',
      href: `/batches/${query}`,
    }
  }
  if (/^b\d{1,18}-\d{1,9}$/.test(query)) {
    const batch = query.slice(0, query.indexOf('-'))
    return {
      id: query,
      kind: 'sample',
      label: query,
      about: 'View sample',
      href: `/samples?batch=${batch}&sample=${query}`,
    }
  }
  return null
}
