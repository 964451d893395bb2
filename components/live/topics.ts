/** Matches every topic. It is used after a reconnection, because the missed changes are unknown. */
export const EVERYTHING = '*'

/** Default gap between two refetches of a query, ms: at most three a second. */
export const MIN_GAP_MS = 340
/** The longest pause before a live page refetches, even if the service is slow. */
export const MAX_PAUSE_MS = 5_000
/** A read that has run for this long is slow. Until it ends, no other read starts. */
export const SLOW_MS = 1_000

export function concerns(shown: readonly string[], changed: ReadonlySet<string>): boolean {
  return changed.has(EVERYTHING) || shown.some((topic) => changed.has(topic))
}

/**
 * The pause after a read that took `tookMs`: twice its duration, so that a slow query runs for at most a third of the
 * time.
 */
export function pauseAfter(tookMs: number): number {
  return Math.min(MAX_PAUSE_MS, Math.max(MIN_GAP_MS - tookMs, 2 * tookMs))
}

interface ShownQuery {
  key: string
  topics: readonly string[]
  busy: boolean
  /** The shortest time between the starts of two refetches, ms. By default {@link MIN_GAP_MS}. */
  minGapMs?: number
}

/** The refetch state of a query. Times are epoch ms. */
interface Pace {
  /** Whether the data changed since the last read. */
  due: boolean
  quietUntil: number
  /** Observed start of the current read; null if there is none. */
  busySince: number | null
}

/**
 * Decides which queries are refetched, and when. Each query has its own pace, so that a slow query (a timeline of 2,000
 * groups) does not delay the others. When the service is slow, due queries wait for the current read and share one
 * request, because a browser has six connections for all tabs.
 */
export class PacedReadings {
  #paces = new Map<string, Pace>()

  /**
   * Returns the queries of `shown` that are due at `now`, given the changes since the last call. A query that is being
   * read, or was just read, stays due, so the last change is never lost and no read is started twice. `left` contains
   * the keys of queries that left the page while due; their data are outdated.
   */
  take<T extends ShownQuery>(
    changed: ReadonlySet<string>,
    shown: readonly T[],
    now: number,
  ): { ready: T[]; left: ReadonlySet<string> } {
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
    const left = new Set<string>()
    for (const [key, { due }] of before) if (due && !this.#paces.has(key)) left.add(key)
    if (slow) return { ready: [], left }
    for (const { query, pace } of ready) {
      pace.due = false
      pace.quietUntil = now + (query.minGapMs ?? MIN_GAP_MS)
    }
    return { ready: ready.map(({ query }) => query), left }
  }

  /** Marks a read that {@link take} returned at `startedAt` as ended, with or without a response. */
  ended(key: string, startedAt: number, now: number): void {
    const pace = this.#paces.get(key)
    if (pace === undefined) return
    pace.quietUntil = Math.max(pace.quietUntil, now + pauseAfter(now - startedAt))
  }
}
