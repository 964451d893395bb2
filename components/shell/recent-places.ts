const KEY = 'rewardops-recent'
const MAX_PLACES = 12

/** Paths of detail pages. List pages are excluded, because they have shortcuts. */
const PLACE = /^\/(batches|runs|servers)\/[^/]+$/

export function withPlace(recent: readonly string[], path: string): string[] {
  if (!PLACE.test(path)) return [...recent]
  return [path, ...recent.filter((each) => each !== path)].slice(0, MAX_PLACES)
}

export function readPlaces(): string[] {
  try {
    const kept: unknown = JSON.parse(localStorage.getItem(KEY) ?? '[]')
    return Array.isArray(kept)
      ? kept.filter((each): each is string => typeof each === 'string' && PLACE.test(each))
      : []
  } catch {
    return []
  }
}

export function visitPlace(path: string): void {
  if (!PLACE.test(path)) return
  try {
    localStorage.setItem(KEY, JSON.stringify(withPlace(readPlaces(), path)))
  } catch {
    // Without browser storage, the palette shows no recent pages.
  }
}
