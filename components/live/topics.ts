/** Topics of changes, what has to be read again because of them, and when. */

/** Stands for every topic: asked for after a reconnection, when nobody knows what was missed. */
export const EVERYTHING = '*'

/** At most three readings a second: faster than the eye follows, slow enough for a table. */
export const MIN_GAP_MS = 340
/** However slow the service answers, a page that is live asks again after this long. */
export const MAX_PAUSE_MS = 5_000
/** A reading under way for so long is slow. */
export const SLOW_MS = 1_000

/** True when something that shows `shown` has to be read again because of `changed`. */
export function concerns(shown: readonly string[], changed: ReadonlySet<string>): boolean {
  return changed.has(EVERYTHING) || shown.some((topic) => changed.has(topic))
}

/**
 * From a reading's end to the next one's start, after one that took `tookMs`: the service is left alone for twice as
 * long as it worked, so that an open page takes at most a third of a slow query's time.
 */
export function pauseAfter(tookMs: number): number {
  return Math.min(MAX_PAUSE_MS, Math.max(MIN_GAP_MS - tookMs, 2 * tookMs))
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
 * Which queries are read again, and when. Each at its own pace: what takes longer to read, a timeline of 2,000
 * groups, does not hold back a page's figures. Unless the service is slow: then what is due waits for the reading
 * under way and goes in one request after it, because a browser has six connections for all its tabs, and nine tabs
 * that ask for each part by itself leave none for the next page.
 */
export class PacedReadings {
  readonly #due = new Set<string>()
  readonly #busySince = new Map<string, number>()
  readonly #quietUntil = new Map<string, number>()

  /**
   * Those of `shown` whose turn it is at `now`, given what changed since the last call. One that is being
   * read, or was read just now, stays due: the last change is never lost and no reading is started twice.
   */
  take<T extends ShownQuery>(changed: ReadonlySet<string>, shown: readonly T[], now: number): T[] {
    const keys = new Set(shown.map(({ key }) => key))
    for (const key of this.#due) if (!keys.has(key)) this.#due.delete(key)
    for (const key of this.#quietUntil.keys()) if (!keys.has(key)) this.#quietUntil.delete(key)
    for (const key of this.#busySince.keys()) if (!keys.has(key)) this.#busySince.delete(key)
    let slow = false
    for (const { key, topics, busy } of shown) {
      if (concerns(topics, changed)) this.#due.add(key)
      const since = this.#busySince.get(key)
      if (!busy) this.#busySince.delete(key)
      else if (since === undefined) this.#busySince.set(key, now)
      else if (now - since >= SLOW_MS) slow = true
    }
    if (slow) return []
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
    this.#quietUntil.set(key, now + pauseAfter(now - startedAt))
  }
}
