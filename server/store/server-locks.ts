import { ADVISORY_LOCKS } from './advisory-locks.ts'
import type { Database } from './database.ts'

const LOOK_EVERY_MS = 100

/**
 * Locks for testing a server, putting it to sleep or waking it. Across all processes, only one such operation per
 * server runs at a time. The locks belong to one database session, so a lost connection or a dead process releases
 * them.
 */
export class ServerLocks {
  readonly #db: Database
  readonly #held = new Set<number>()

  /** @param db pool with a single connection that stays open: the session of the locks */
  constructor(db: Database) {
    if (db.max !== 1) throw new Error('server locks need a pool of one connection')
    this.#db = db
  }

  holds(id: number): boolean {
    return this.#held.has(id)
  }

  /** Takes a server's lock. Returns false if this or another process holds it. */
  async take(id: number): Promise<boolean> {
    if (this.#held.has(id)) return false
    this.#held.add(id)
    let taken = false
    try {
      const [row] = await this.#db.adhoc<{ taken: boolean }>(
        'select pg_try_advisory_lock($1, $2) as taken',
        [ADVISORY_LOCKS.server, id],
      )
      taken = row!.taken
    } finally {
      if (!taken) this.#held.delete(id)
    }
    return taken
  }

  async takeWithin(id: number, ms: number): Promise<boolean> {
    const until = performance.now() + ms
    for (;;) {
      if (await this.take(id)) return true
      if (performance.now() > until) return false
      await new Promise((resolve) => setTimeout(resolve, LOOK_EVERY_MS))
    }
  }

  async release(id: number): Promise<void> {
    await this.#db
      .adhoc('select pg_advisory_unlock($1, $2)', [ADVISORY_LOCKS.server, id])
      .catch(() => {})
    this.#held.delete(id)
  }

  /** Runs work under a server's lock. Returns undefined if the lock is held elsewhere. */
  async under<T>(id: number, work: () => Promise<T>): Promise<T | undefined> {
    if (!(await this.take(id))) return undefined
    try {
      return await work()
    } finally {
      await this.release(id)
    }
  }
}
