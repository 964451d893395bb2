/** Topics of changes waiting to be read again, and when the next reading may start. */

/** Stands for every topic: asked for after a reconnection, when nobody knows what was missed. */
export const EVERYTHING = '*'

/** At most three readings a second: faster than the eye follows, slow enough for a table. */
export const MIN_GAP_MS = 340
/** However slow the service answers, a page that is live reads again at least this often. */
export const MAX_GAP_MS = 5_000

/** True when something that shows `shown` has to be read again because of `changed`. */
export function concerns(shown: readonly string[], changed: ReadonlySet<string>): boolean {
  return changed.has(EVERYTHING) || shown.some((topic) => changed.has(topic))
}

/**
 * How long to leave the service alone after a reading that took `tookMs`: three times as long as it
 * worked, so that one open page takes at most a quarter of a slow query's time.
 */
export function gapAfter(tookMs: number): number {
  return Math.min(MAX_GAP_MS, Math.max(MIN_GAP_MS, 3 * tookMs))
}

/**
 * Splits what waits into what is read now and what stays: a topic whose reading is still under way waits
 * for its end, so that the last change is never lost and no reading is started twice.
 */
export function takeReady<T extends { topics: readonly string[]; busy: boolean }>(
  waiting: ReadonlySet<string>,
  shown: readonly T[],
): { read: T[]; stay: Set<string> } {
  const concerned = shown.filter((q) => concerns(q.topics, waiting))
  const stay = new Set<string>()
  for (const q of concerned) {
    if (!q.busy) continue
    for (const topic of q.topics) if (concerns([topic], waiting)) stay.add(topic)
  }
  return { read: concerned.filter((q) => !q.busy), stay }
}
