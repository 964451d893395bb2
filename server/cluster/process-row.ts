import { monotonicEpochMs } from '../monotonic-clock.ts'
import { PROCESS_HOST } from '../process-host.ts'
import { DatabaseClock } from '../store/clock.ts'
import { type Database, throughOutage } from '../store/database.ts'
import { FUNCTIONS_SCHEMA } from '../store/functions.ts'
import { SCHEMA_VERSION } from '../store/schema-version.ts'
import { insertProcess, noteEnded, noteStopping, reportProcess } from '../store/sql/processes.ts'

/** A process without a report for this long is considered dead: five missed reports. */
export const DEAD_AFTER_MS = 5_000
/** A starting process waits this long for the database. */
const START_MS = 10_000

export type ProcessState = 'alive' | 'stopping' | 'dead'

/**
 * This process's row in the table `process`. The process writes its reports to the row. Leases and claims refer to the
 * process by the row's id.
 */
export class ProcessRow {
  readonly id: number
  readonly #db: Database
  readonly #role: 'server' | 'worker'
  state: ProcessState = 'alive'
  /** The database's time, corrected with every report. */
  readonly clock: DatabaseClock
  /**
   * Called when this process learns that it was declared dead and its jobs were requeued, before it reports as alive
   * again. `atMs`: time of the declaration, on the clock of `performance.now()`.
   */
  onDeclaredDead: (atMs: number) => void = () => {}
  /** The lowest schema version of the other running processes, according to the last report. */
  #oldestVersion: number

  private constructor(
    db: Database,
    { id, oldest }: { id: number; oldest: number | null },
    role: 'server' | 'worker',
    clock: DatabaseClock,
  ) {
    this.#db = db
    this.id = id
    this.#oldestVersion = oldest ?? SCHEMA_VERSION
    this.clock = clock
    this.#role = role
  }

  /** Registers this process. `local`: a worker started by a server on this host. */
  static async register(
    db: Database,
    role: 'server' | 'worker',
    local: boolean,
  ): Promise<ProcessRow> {
    const own = {
      host: PROCESS_HOST,
      pid: process.pid,
      local,
      role,
      version: SCHEMA_VERSION,
      functions: FUNCTIONS_SCHEMA,
    }
    const registered = await throughOutage(() => insertProcess(db, own), { forMs: START_MS })
    return new ProcessRow(db, registered, role, await DatabaseClock.of(db))
  }

  async report(stats: object): Promise<void> {
    const sentAtMs = monotonicEpochMs()
    const sentMs = performance.now()
    const { now, oldest, deadForMs } = await reportProcess(
      this.#db,
      this.id,
      this.state,
      stats,
      false,
    )
    this.clock.observe(now.getTime(), sentAtMs)
    this.#oldestVersion = oldest ?? SCHEMA_VERSION
    if (deadForMs === null) return
    this.onDeclaredDead(sentMs - deadForMs)
    await reportProcess(this.#db, this.id, this.state, stats, true)
  }

  /** True if, according to the last report, all running processes have this schema version or a later one. */
  allHave(version: number): boolean {
    return this.#oldestVersion >= version
  }

  async stopping(): Promise<void> {
    this.state = 'stopping'
    await noteStopping(this.#db, this.id).catch(() => {})
  }

  /** Reports that the process has ended. Without this report, it is declared dead after 5 s. */
  async ended(): Promise<void> {
    this.state = 'dead'
    await noteEnded(this.#db, this.id).catch(() => {})
  }

  /** The process's name in events and on pages: `w3`, `server-4`. */
  get name(): string {
    return this.#role === 'worker' ? `w${this.id}` : `server-${this.id}`
  }
}
