import type { Database } from '../store/database.ts'
import { dropTurns, takeTurn } from '../store/sql/processes.ts'

/** A turn lasts this long without renewal: another server takes over when its holder stops. */
const TURN_MS = 3_000
/** A holder stops this long before another may begin. */
const MARGIN_MS = 250

/**
 * Lets one of several servers at a time run a kind of background work. No leader and no lock of a session: a turn is a row
 * with an end, which its holder renews while it works, so a server that is stopped or cut off loses it by itself. Work
 * that began in a turn may still run when another server has the next: all of it is safe to do twice.
 */
export class BackgroundTurns {
  readonly #db: Database
  readonly #processId: number
  readonly #heldUntilMs = new Map<string, number>()

  constructor(db: Database, processId: number) {
    this.#db = db
    this.#processId = processId
  }

  /** Whether it is this server's turn to do work of a kind. */
  async has(kind: string): Promise<boolean> {
    const nowMs = performance.now()
    if ((this.#heldUntilMs.get(kind) ?? 0) > nowMs + TURN_MS / 2) return true
    const isTaken = await takeTurn(this.#db, kind, this.#processId, TURN_MS)
    if (isTaken) this.#heldUntilMs.set(kind, nowMs + TURN_MS - MARGIN_MS)
    else this.#heldUntilMs.delete(kind)
    return isTaken
  }

  /** Leaves every turn to the other servers. */
  async release(): Promise<void> {
    this.#heldUntilMs.clear()
    await dropTurns(this.#db, this.#processId).catch(() => {})
  }
}
