import type { Database } from '../store/database.ts'

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
    const rows = await this.#db.rows(
      'take-turn',
      `insert into background_turn as t (kind, process_id, until)
         values ($1, $2, clock_timestamp() + $3 * interval '1 millisecond')
       on conflict (kind) do update set process_id = excluded.process_id, until = excluded.until
         where t.process_id = excluded.process_id or t.until < clock_timestamp()
       returning kind`,
      [kind, this.#processId, TURN_MS],
    )
    if (rows.length === 0) this.#heldUntilMs.delete(kind)
    else this.#heldUntilMs.set(kind, nowMs + TURN_MS - MARGIN_MS)
    return rows.length > 0
  }

  /** Leaves every turn to the other servers. */
  async release(): Promise<void> {
    this.#heldUntilMs.clear()
    await this.#db
      .adhoc('delete from background_turn where process_id = $1', [this.#processId])
      .catch(() => {})
  }
}
