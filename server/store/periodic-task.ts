import type { Logger } from '../log.ts'
import { isOutage } from './database.ts'

/** What is done by the clock. */
export interface PeriodicWork {
  everyMs: number
  /** The first time at the start, not `everyMs` after it. */
  atStart?: boolean
  /** What the log says when the work has failed: `'sweep failed'`. */
  failed: string
  log: Pick<Logger, 'warn'>
  /** Resolves to true when this one of several processes does the work now; called before each turn. */
  isTurn?: (() => Promise<boolean>) | undefined
  work(): Promise<void>
}

/**
 * Work that is done every so often, and when somebody asks for it, never twice at a time: a turn that comes while the last
 * one is not over is left out. A failure is logged and the next turn comes all the same; while the database is away nothing
 * is said, since who connects to it says so. It keeps no process alive.
 *
 *   start ──▶ waiting ⇄ running            stop: no turn begins any more, the one that runs is waited for
 */
export class PeriodicTask {
  readonly #options: PeriodicWork
  #timer: NodeJS.Timeout | undefined
  #running: Promise<void> | null = null
  #stopping = false

  constructor(options: PeriodicWork) {
    this.#options = options
  }

  /** Whether `stop` was called: work of many steps ends before its next one. */
  get stopping(): boolean {
    return this.#stopping
  }

  start(): void {
    this.#timer = setInterval(() => void this.run(), this.#options.everyMs)
    this.#timer.unref()
    if (this.#options.atStart) void this.run()
  }

  /** Begins a turn now, unless one runs; resolves when it is over. Never rejects. After `stop` it does nothing. */
  run(): Promise<void> {
    if (this.#stopping) return Promise.resolve()
    this.#running ??= this.#turn().finally(() => {
      this.#running = null
    })
    return this.#running
  }

  /** Resolves when nothing runs any more. */
  async stop(): Promise<void> {
    this.#stopping = true
    clearInterval(this.#timer)
    await this.#running
  }

  async #turn(): Promise<void> {
    const { work, log, failed, isTurn } = this.#options
    try {
      if (isTurn === undefined || (await isTurn())) await work()
    } catch (error) {
      if (!isOutage(error)) log.warn({ err: (error as Error).message }, failed)
    }
  }
}
