import { hostname } from 'node:os'
import { monotonicEpochMs } from '../monotonic-clock.ts'
import { DatabaseClock } from '../store/clock.ts'
import { type Database, throughOutage } from '../store/database.ts'
import { FUNCTIONS_SCHEMA } from '../store/functions.ts'
import { SCHEMA_VERSION } from '../store/schema-version.ts'

/** A process that is starting waits this long for the database. */
const START_MS = 10_000

/** The states a process reports of itself. */
export type ProcessState = 'alive' | 'stopping' | 'dead'

/** This process's row in the database: its identity, under which it leases, and what it last reported. */
export class ProcessRow {
  readonly id: number
  readonly #db: Database
  readonly #role: 'server' | 'worker'
  state: ProcessState = 'alive'
  /** Corrected with every report. */
  readonly clock: DatabaseClock

  private constructor(db: Database, id: number, role: 'server' | 'worker', clock: DatabaseClock) {
    this.#db = db
    this.id = id
    this.clock = clock
    this.#role = role
  }

  /** Registers this process. `local`: a worker that a server of this host started. */
  static async register(
    db: Database,
    role: 'server' | 'worker',
    local: boolean,
  ): Promise<ProcessRow> {
    const [row] = await throughOutage(
      () =>
        db.adhoc<{ id: number }>(
          `insert into process (host, pid, local, state, role, version, functions)
           values ($1, $2, $3, 'alive', $4, $5, $6) returning id`,
          [hostname(), process.pid, local, role, SCHEMA_VERSION, FUNCTIONS_SCHEMA],
        ),
      { forMs: START_MS },
    )
    return new ProcessRow(db, row!.id, role, await DatabaseClock.of(db))
  }

  /** Says that the process lives, and what it does. */
  async report(stats: object): Promise<void> {
    const sentAtMs = monotonicEpochMs()
    const [answer] = await this.#db.rows<{ now: Date }>(
      'process-report',
      `with r as (update process set last_seen_at = clock_timestamp(), state = $3, stats = $2 where id = $1)
       select pg_notify('rewardops', 'w'), clock_timestamp() as now`,
      [this.id, JSON.stringify(stats), this.state],
    )
    this.clock.observe(answer!.now.getTime(), sentAtMs)
  }

  /** Says that the process takes no new work. */
  async stopping(): Promise<void> {
    this.state = 'stopping'
    await this.#db
      .adhoc("update process set state = 'stopping' where id = $1", [this.id])
      .catch(() => {})
  }

  /** Says that the process has ended. Without it others find out, within 5 s. */
  async ended(): Promise<void> {
    this.state = 'dead'
    await this.#db
      .adhoc(
        "update process set state = 'dead', ended_at = clock_timestamp(), last_seen_at = clock_timestamp() where id = $1",
        [this.id],
      )
      .catch(() => {})
  }

  /** How it is named in events and on pages: `w3`, `server-4`. */
  get name(): string {
    return this.#role === 'worker' ? `w${this.id}` : `server-${this.id}`
  }
}
