import { mkdirSync, realpathSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Logger } from '../../log.ts'
import { accountForPostgres } from './account.ts'
import { ensureCluster, evictPredecessor, isPostmasterOf, readPostmaster } from './cluster.ts'
import { PostgresLog } from './log-lines.ts'
import { ownFolder } from './owner.ts'
import { type Exit, LaunchFailure, launch, type Postmaster } from './postmaster.ts'
import { claimPasswords, type Passwords, readPasswords, setPasswords, socketUrl } from './roles.ts'
import { findRuntime, type Runtime, type RuntimeOptions } from './runtime.ts'
import { asArguments, POSTGRES_SETTINGS } from './settings.ts'
import { DatabaseStartError } from './start-error.ts'

export const DATABASE = 'rewardops'

export interface EmbeddedPostgres {
  /** A connection string of the service's role for the unix socket; constant for the lifetime of this object. */
  url(database?: string): string
  /** A connection string of the superuser. */
  adminUrl(database: string): string
  /** The postmaster's pid; null while Postgres is down. */
  readonly pid: number | null
  readonly state: EmbeddedPostgresState
  /** Shuts Postgres down cleanly and releases the data folder. Close the pools first. */
  stop(): Promise<void>
}

export type EmbeddedPostgresState = 'up' | 'down' | 'stopped'

export interface EmbeddedPostgresOptions {
  /** Folder of `postgres/`, `postgres.log` and `postgres.owner`; created if missing. */
  dataDir: string
  log: Logger
  /** Called after an unexpected end of Postgres; a restart follows. */
  onUnexpectedExit?(exit: Exit): void
  /** Called after every change of state except the first `up`. */
  onState?(state: EmbeddedPostgresState): void
  settings?: Readonly<Record<string, string>>
  /** Aborting cancels the start, which rejects after the started processes have ended. */
  signal?: AbortSignal
  /** Maximum wait for another live service to release the data folder, ms. */
  waitForOwnerMs?: number
  /** For tests. */
  runtime?: RuntimeOptions
}

/** Time that a start waits for the service that it replaces, which drains for at most 8 s. */
const WAIT_FOR_OWNER_MS = 10_000
/** Time that processes of a killed Postgres may take to end before a start fails. */
const PASSING_FAILURES_MS = 20_000
const BACKOFF_MAX_MS = 5_000
/** An exit after at least this uptime counts as a first failure, so that the restart is immediate. */
const STEADY_MS = 30_000

/**
 * Starts the embedded Postgres 18 and restarts it after failures.
 *
 * ```
 *              launched              exits
 *   (start) ───────────▶ up ──────────────────▶ down ─┐ launch fails: again after
 *      │                 ▲ │                    │ ▲   │ 0.1, 0.2, 0.4 … 5 s
 *      ▼ fails           │ │ stop()    launched │ └───┘
 *   (throws)             └─┼────────────────────┤
 *                          ▼                    ▼ stop()
 *                       stopped ◀───────────────┘
 * ```
 *
 * Cleans up after a killed predecessor: a running Postgres, a lock whose pid is a zombie or was reused, an unfinished
 * initdb. Postgres ends with this process: see KEEPER in runtime.ts.
 * @throws DatabaseStartError
 */
export async function startEmbeddedPostgres(
  options: EmbeddedPostgresOptions,
): Promise<EmbeddedPostgres> {
  const { log } = options
  mkdirSync(options.dataDir, { recursive: true })
  const dataDir = realpathSync(options.dataDir)
  const folder = join(dataDir, 'postgres')
  const owner = await ownFolder(join(dataDir, 'postgres.owner'), {
    waitMs: options.waitForOwnerMs ?? WAIT_FOR_OWNER_MS,
    log,
    signal: options.signal,
  })
  let runtime: Runtime | undefined
  try {
    const account = accountForPostgres(folder)
    runtime = await findRuntime(dataDir, account, log, options.runtime)
    options.signal?.throwIfAborted()
    await ensureCluster(folder, runtime, log, options.signal)
    const { passwords, areSet } = claimPasswords(dataDir, folder)
    const supervisor = new Supervisor(folder, runtime, passwords, options, () => {
      runtime?.remove()
      owner.release()
    })
    await supervisor.start(join(dataDir, 'postgres.log'))
    try {
      options.signal?.throwIfAborted()
      if (!areSet) await setPasswords(supervisor.adminUrl('postgres'), folder, passwords)
      options.signal?.throwIfAborted()
    } catch (error) {
      await supervisor.stop()
      throw error
    }
    return supervisor
  } catch (error) {
    runtime?.remove()
    owner.release()
    if (error instanceof LaunchFailure) throw new DatabaseStartError('start_failed', error.message)
    throw error
  }
}

/**
 * The connection string of the embedded Postgres that another process of the service runs on this data folder; null if
 * there is no such process, or if this user cannot read its passwords. For a worker started manually beside the
 * service.
 */
export function runningEmbeddedUrl(
  dataDir: string,
  role: keyof Passwords = 'service',
): string | null {
  let folder: string
  try {
    folder = realpathSync(join(dataDir, 'postgres'))
  } catch {
    return null
  }
  const postmaster = readPostmaster(folder)
  if (!postmaster?.socketDir || !isPostmasterOf(postmaster.pid, folder)) return null
  const passwords = readPasswords(dataDir)
  if (passwords === null) return null
  return socketUrl(postmaster.socketDir, DATABASE, passwords, role)
}

class Supervisor implements EmbeddedPostgres {
  readonly #folder: string
  readonly #runtime: Runtime
  readonly #passwords: Passwords
  readonly #options: EmbeddedPostgresOptions
  readonly #arguments: string[]
  readonly #release: () => void
  #log: PostgresLog | undefined
  #postmaster: Postmaster | undefined
  #state: EmbeddedPostgresState = 'down'
  /** Number of restarts since Postgres was last up for 30 s. It determines the pause before the next restart. */
  #failures = 0
  #stopping = new AbortController()
  #restart: Promise<void> | undefined
  #stopped: Promise<void> | undefined

  constructor(
    folder: string,
    runtime: Runtime,
    passwords: Passwords,
    options: EmbeddedPostgresOptions,
    release: () => void,
  ) {
    this.#folder = folder
    this.#runtime = runtime
    this.#passwords = passwords
    this.#options = options
    this.#arguments = asArguments({ ...POSTGRES_SETTINGS, ...options.settings })
    this.#release = release
  }

  get pid(): number | null {
    return this.#postmaster?.pid ?? null
  }

  get state(): EmbeddedPostgresState {
    return this.#state
  }

  url(database: string = DATABASE): string {
    return socketUrl(this.#runtime.socketDir, database, this.#passwords, 'service')
  }

  adminUrl(database: string): string {
    return socketUrl(this.#runtime.socketDir, database, this.#passwords, 'superuser')
  }

  async start(logFile: string): Promise<void> {
    this.#log = new PostgresLog(logFile, this.#options.log)
    await this.#launch()
    this.#state = 'up'
  }

  stop(): Promise<void> {
    this.#stopped ??= (async () => {
      this.#stopping.abort()
      await this.#restart
      await this.#postmaster?.stop()
      this.#postmaster = undefined
      this.#release()
      this.#enter('stopped')
    })()
    return this.#stopped
  }

  async #launch(): Promise<void> {
    const deadline = Date.now() + PASSING_FAILURES_MS
    for (;;) {
      await evictPredecessor(this.#folder, this.#options.log)
      // The socket files of a killed Postgres would prevent the launch. No live process uses them now.
      for (const name of ['.s.PGSQL.5432', '.s.PGSQL.5432.lock']) {
        rmSync(join(this.#runtime.socketDir, name), { force: true })
      }
      try {
        const { signal } = this.#options
        const launching = launch(this.#folder, this.#runtime, this.#arguments, this.#log!, signal)
        this.#watch(await launching)
        return
      } catch (error) {
        if (!(error instanceof LaunchFailure && error.passing) || Date.now() >= deadline)
          throw error
        await sleep(100)
      }
    }
  }

  #watch(postmaster: Postmaster): void {
    this.#postmaster = postmaster
    const since = Date.now()
    void postmaster.exited.then((exit) => {
      if (this.#stopping.signal.aborted) return
      this.#postmaster = undefined
      this.#options.log.error(
        { ...exit, postmaster: postmaster.pid },
        'Postgres died; starting it again',
      )
      this.#enter('down')
      this.#options.onUnexpectedExit?.(exit)
      this.#restart = this.#revive(Date.now() - since > STEADY_MS)
    })
  }

  async #revive(steady: boolean): Promise<void> {
    this.#failures = steady ? 0 : this.#failures
    while (!this.#stopping.signal.aborted) {
      if (this.#failures > 0) {
        const backoffMs = Math.min(BACKOFF_MAX_MS, 50 * 2 ** this.#failures)
        const cut = { signal: this.#stopping.signal }
        if ((await sleep(backoffMs, true, cut).catch(() => false)) === false) return
      }
      this.#failures += 1
      const startedAt = performance.now()
      try {
        await this.#launch()
      } catch (error) {
        this.#options.log.error({ err: error }, 'Postgres could not be started again')
        continue
      }
      const ms = Math.round(performance.now() - startedAt)
      this.#options.log.info({ postmaster: this.pid, ms }, 'Postgres is back')
      if (!this.#stopping.signal.aborted) this.#enter('up')
      return
    }
  }

  #enter(state: EmbeddedPostgresState): void {
    this.#state = state
    this.#options.onState?.(state)
  }
}
