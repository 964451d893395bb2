import pg from 'pg'
import type { Database } from './database.ts'

/** The class of the advisory locks under which a server is tested, put to sleep or woken. */
const SERVER_LOCK = 72_707_373
/** Who waits for a lock looks again this often. */
const LOOK_EVERY_MS = 100

/**
 * One thing at a time is done with a server (its scores tested, put to sleep, woken), over all processes. The locks are
 * those of one database session: a process that dies lets go of them at once, so that another sees what it left half
 * done.
 */
export class ServerLocks {
  readonly #url: string
  readonly #held = new Set<number>()
  #session: Promise<pg.Client> | null = null

  constructor(db: Database) {
    this.#url = db.url
  }

  /** Whether this process is doing something with a server. */
  holds(id: number): boolean {
    return this.#held.has(id)
  }

  /** Takes a server's lock; false when somebody has it, be it this process. */
  async take(id: number): Promise<boolean> {
    if (this.#held.has(id)) return false
    this.#held.add(id)
    let taken = false
    try {
      const session = await this.#open()
      const { rows } = await session.query<{ taken: boolean }>(
        'select pg_try_advisory_lock($1, $2) as taken',
        [SERVER_LOCK, id],
      )
      taken = rows[0]!.taken
    } finally {
      if (!taken) this.#held.delete(id)
    }
    return taken
  }

  /** Takes a server's lock, waiting at most `ms` for whoever has it. */
  async takeWithin(id: number, ms: number): Promise<boolean> {
    const until = performance.now() + ms
    for (;;) {
      if (await this.take(id)) return true
      if (performance.now() > until) return false
      await new Promise((resolve) => setTimeout(resolve, LOOK_EVERY_MS))
    }
  }

  async release(id: number): Promise<void> {
    const session = await this.#session?.catch(() => null)
    await session?.query('select pg_advisory_unlock($1, $2)', [SERVER_LOCK, id]).catch(() => {})
    this.#held.delete(id)
  }

  /** Does something under a server's lock; undefined when somebody has it. */
  async under<T>(id: number, work: () => Promise<T>): Promise<T | undefined> {
    if (!(await this.take(id))) return undefined
    try {
      return await work()
    } finally {
      await this.release(id)
    }
  }

  async close(): Promise<void> {
    const session = await this.#session?.catch(() => null)
    this.#session = null
    await session?.end().catch(() => {})
  }

  #open(): Promise<pg.Client> {
    if (this.#session) return this.#session
    const client = new pg.Client({
      connectionString: this.#url,
      application_name: 'rewardops server locks',
      connectionTimeoutMillis: 10_000,
    })
    const session = client.connect().then(() => client)
    // With the connection the locks are gone; what is under way ends by its own checks of the server's state.
    const forget = () => {
      if (this.#session === session) this.#session = null
    }
    client.on('error', forget)
    client.on('end', forget)
    session.catch(forget)
    this.#session = session
    return session
  }
}
