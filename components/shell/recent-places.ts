/** The batches, runs and servers visited last in this browser, newest first: the palette offers them before anything else. */

const KEY = 'rewardops-recent'
const MOST = 12

/** Pages of one thing; lists are a key away anyway. */
const PLACE = /^\/(batches|runs|servers)\/[^/]+$/

/** Puts an address first, if it is the page of one thing. */
export function withPlace(recent: readonly string[], path: string): string[] {
  if (!PLACE.test(path)) return [...recent]
  return [path, ...recent.filter((each) => each !== path)].slice(0, MOST)
}

/** The addresses as kept; none where storage is forbidden or holds something else. */
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

/** Keeps a visit. */
export function visitPlace(path: string): void {
  if (!PLACE.test(path)) return
  try {
    localStorage.setItem(KEY, JSON.stringify(withPlace(readPlaces(), path)))
  } catch {
    // Storage may be forbidden: the palette then begins with its pages.
  }
}
