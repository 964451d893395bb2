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

/** What is remembered of a query that a page shows. Epoch milliseconds. */
interface Pace {
  /** Something it shows has changed since it was read. */
  due: boolean
  /** It is left alone until then. */
  quietUntil: number
  /** Being read since then, as far as was seen; null: it is not. */
  busySince: number | null
}

/**
 * Which queries are read again, and when. Each at its own pace: what takes longer to read, a timeline of 2,000
 * groups, does not hold back a page's figures. Unless the service is slow: then what is due waits for the reading
 * under way and goes in one request after it, because a browser has six connections for all its tabs, and nine tabs
 * that ask for each part by itself leave none for the next page.
 */
export class PacedReadings {
  #paces = new Map<string, Pace>()

  /**
   * Those of `shown` whose turn it is at `now`, given what changed since the last call. One that is being
   * read, or was read just now, stays due: the last change is never lost and no reading is started twice.
   * What is no longer shown is forgotten.
   */
  take<T extends ShownQuery>(changed: ReadonlySet<string>, shown: readonly T[], now: number): T[] {
    const before = this.#paces
    this.#paces = new Map()
    const ready: { query: T; pace: Pace }[] = []
    let slow = false
    for (const query of shown) {
      const pace = before.get(query.key) ?? { due: false, quietUntil: 0, busySince: null }
      this.#paces.set(query.key, pace)
      pace.due ||= concerns(query.topics, changed)
      pace.busySince = query.busy ? (pace.busySince ?? now) : null
      if (pace.busySince !== null) slow ||= now - pace.busySince >= SLOW_MS
      else if (pace.due && now >= pace.quietUntil) ready.push({ query, pace })
    }
    if (slow) return []
    return ready.map(({ query, pace }) => {
      pace.due = false
      pace.quietUntil = now + MIN_GAP_MS
      return query
    })
  }

  /** A reading that {@link take} gave out at `startedAt` has ended, with or without an answer. */
  ended(key: string, startedAt: number, now: number): void {
    const pace = this.#paces.get(key)
    if (pace !== undefined) pace.quietUntil = now + pauseAfter(now - startedAt)
  }
}
