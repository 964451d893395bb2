import type { ChildProcess } from 'node:child_process'
import type { Logger } from './log.ts'

const MAX_BACKOFF_MS = 5_000
/** A child that ran for at least this long is restarted immediately, in ms. */
const STABLE_MS = 10_000

export interface KeptChildOptions {
  /** Name in log messages, such as `worker`. */
  name: string
  spawn: () => ChildProcess
  /** Called for each started child, before its first event. */
  onStarted?: (child: ChildProcess, pid: number) => void
  /** Called when a child ended before `stop` was called. If it returns false, the child is not restarted. */
  onDied?: (pid: number) => boolean | undefined
  log: Logger
}

/**
 * Keeps one child process running: restarts it when it dies, after increasing delays if it keeps dying.
 *
 *   start ─▶ running ──exit──▶ back-off ──▶ start
 */
export class KeptChild {
  readonly #options: KeptChildOptions
  #child: ChildProcess | null = null
  #timer: NodeJS.Timeout | undefined
  #isStopping = false

  constructor(options: KeptChildOptions) {
    this.#options = options
  }

  /** The running child; null during a back-off. */
  get child(): ChildProcess | null {
    return this.#child
  }

  start(failures = 0): void {
    if (this.#isStopping) return
    const { name, log, onStarted, onDied } = this.#options
    const startedAt = performance.now()
    const startAgain = () => {
      this.#child = null
      if (this.#isStopping) return
      const next = performance.now() - startedAt > STABLE_MS ? 0 : failures + 1
      const delayMs = next === 0 ? 0 : Math.min(MAX_BACKOFF_MS, 100 * 2 ** next)
      this.#timer = setTimeout(() => this.start(next), delayMs)
    }
    const notStarted = (error: Error) => {
      log.error({ err: error.message }, `${name} not started`)
      startAgain()
    }
    let child: ChildProcess
    try {
      child = this.#options.spawn()
    } catch (error) {
      // Node throws some errors, such as a lack of memory, and emits others as events.
      notStarted(error as Error)
      return
    }
    // A process that could not be started, for example for lack of file descriptors, emits no `exit`.
    const { pid } = child
    if (pid === undefined) {
      child.once('error', notStarted)
      return
    }
    this.#child = child
    onStarted?.(child, pid)
    child.on('error', (error) =>
      log.error({ pid, err: error.message }, `${name} could not be reached`),
    )
    child.on('exit', (code, signal) => {
      if (!this.#isStopping) {
        const livedMs = Math.round(performance.now() - startedAt)
        log.warn({ pid, code, signal, livedMs }, `${name} died`)
        if (onDied?.(pid) === false) {
          this.#child = null
          return
        }
      }
      startAgain()
    })
  }

  stop(withinMs: number): Promise<void> {
    this.#isStopping = true
    clearTimeout(this.#timer)
    const child = this.#child
    return new Promise<void>((resolve) => {
      if (child === null || child.exitCode !== null || child.signalCode !== null) return resolve()
      const timer = setTimeout(() => child.kill('SIGKILL'), withinMs)
      child.once('exit', () => {
        clearTimeout(timer)
        resolve()
      })
      child.kill('SIGTERM')
    })
  }
}
