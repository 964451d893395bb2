/** Topics of changes, what has to be read again because of them, and when. */

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
 * From one reading's start to the next, after one that took `tookMs`: the service is left alone for twice as
 * long as it worked, so that an open page takes at most a third of a slow query's time.
 */
export function gapAfter(tookMs: number): number {
  return Math.min(MAX_GAP_MS, Math.max(MIN_GAP_MS, 3 * tookMs))
}

/** A query that a page shows. */
export interface ShownQuery {
  /** Its name among all. */
  key: string
  topics: readonly string[]
  /** It is being read. */
  busy: boolean
}

/**
 * Which queries are read again, and when. Each at its own pace: what is slow to read, a timeline of 2,000
 * groups, does not hold back a page's figures.
 */
export class PacedReadings {
  readonly #due = new Set<string>()
  readonly #quietUntil = new Map<string, number>()

  /**
   * Those of `shown` whose turn it is at `now`, given what changed since the last call. One that is being
   * read, or was read just now, stays due: the last change is never lost and no reading is started twice.
   */
  take<T extends ShownQuery>(changed: ReadonlySet<string>, shown: readonly T[], now: number): T[] {
    const keys = new Set(shown.map(({ key }) => key))
    for (const key of this.#due) if (!keys.has(key)) this.#due.delete(key)
    for (const key of this.#quietUntil.keys()) if (!keys.has(key)) this.#quietUntil.delete(key)
    for (const { key, topics } of shown) if (concerns(topics, changed)) this.#due.add(key)
    const ready = shown.filter(
      ({ key, busy }) => this.#due.has(key) && !busy && now >= (this.#quietUntil.get(key) ?? 0),
    )
    for (const { key } of ready) {
      this.#due.delete(key)
      this.#quietUntil.set(key, now + MIN_GAP_MS)
    }
    return ready
  }

  /** A reading that {@link take} gave out at `startedAt` has ended, with or without an answer. */
  ended(key: string, startedAt: number, now: number): void {
    this.#quietUntil.set(key, startedAt + gapAfter(now - startedAt))
  }
}
