import type { Database } from '../store/database.ts'
import { dropTurns, takeTurn } from '../store/sql/processes.ts'

/** A turn that is not renewed ends after this time, and another process may take it. */
const TURN_MS = 3_000
/** A holder treats its turn as ended this long before the end that is stored in the database. */
const MARGIN_MS = 250

/**
 * Assigns each kind of background work to one service process at a time. A turn is a table row with an end time, which
 * its holder renews while it works, so a stopped or disconnected process loses its turn automatically. The work of
 * successive holders may overlap, so all background work must be safe to repeat.
 */
export class BackgroundTurns {
  readonly #db: Database
  readonly #processId: number
  readonly #heldUntilMs = new Map<string, number>()

  constructor(db: Database, processId: number) {
    this.#db = db
    this.#processId = processId
  }

  /** Takes or renews the turn for a kind of work. Returns whether this process holds it. */
  async has(kind: string): Promise<boolean> {
    const nowMs = performance.now()
    if ((this.#heldUntilMs.get(kind) ?? 0) > nowMs + TURN_MS / 2) return true
    const isTaken = await takeTurn(this.#db, kind, this.#processId, TURN_MS)
    if (isTaken) this.#heldUntilMs.set(kind, nowMs + TURN_MS - MARGIN_MS)
    else this.#heldUntilMs.delete(kind)
    return isTaken
  }

  /** Gives up every turn of this process. Never rejects. */
  async release(): Promise<void> {
    this.#heldUntilMs.clear()
    await dropTurns(this.#db, this.#processId).catch(() => {})
  }
}
