import type { Logger } from '../log.ts'
import { isOutage } from './database.ts'

export interface PeriodicWork {
  everyMs: number
  /** Runs the first turn at the start instead of `everyMs` after it. */
  atStart?: boolean
  /** The log message for a failed turn, such as `'sweep failed'`. */
  failed: string
  log: Pick<Logger, 'warn'>
  /** Called before each turn. If several processes could do the work, resolves to true in only one of them. */
  isTurn?: (() => Promise<boolean>) | undefined
  work(): Promise<void>
}

/**
 * Work that runs at an interval and on demand, never concurrently: a turn that comes due while one runs is skipped. A
 * failure is logged, and the next turn runs as usual. The task keeps no process alive.
 *
 * start ──▶ waiting ⇄ running            stop: no new turn begins, and a running one is awaited
 */
export class PeriodicTask {
  readonly #options: PeriodicWork
  #timer: NodeJS.Timeout | undefined
  #running: Promise<void> | null = null
  #stopping = false

  constructor(options: PeriodicWork) {
    this.#options = options
  }

  /** Whether `stop` was called. Work with many steps checks this between steps. */
  get stopping(): boolean {
    return this.#stopping
  }

  start(): void {
    this.#timer = setInterval(() => void this.run(), this.#options.everyMs)
    this.#timer.unref()
    if (this.#options.atStart) void this.run()
  }

  /** Begins a turn, unless one is running. Resolves when the turn ends. Never rejects. Does nothing after `stop`. */
  run(): Promise<void> {
    if (this.#stopping) return Promise.resolve()
    this.#running ??= this.#turn().finally(() => {
      this.#running = null
    })
    return this.#running
  }

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

/**
 * Runs `work` for each item in turn. A failed item does not hold up the others; the first error is thrown after the
 * last item. A database outage is thrown immediately.
 */
export async function eachInTurn<T>(
  items: Iterable<T>,
  work: (item: T) => Promise<unknown>,
): Promise<void> {
  const errors: unknown[] = []
  for (const item of items) {
    try {
      await work(item)
    } catch (error) {
      if (isOutage(error)) throw error
      errors.push(error)
    }
  }
  if (errors.length > 0) throw errors[0]
}
