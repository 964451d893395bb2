import type { Logger } from '../log.ts'

/**
 * Tracks whether this worker's results can be written. During an outage, the worker dispatches no samples, so it keeps
 * at most the results of its claimed samples in memory.
 */
export class Outage {
  readonly #log: Logger
  readonly #onChange: (isOn: boolean) => void
  #begunAtMs: number | null = null
  #waiting: (() => void)[] = []

  constructor(log: Logger, onChange: (isOn: boolean) => void) {
    this.#log = log
    this.#onChange = onChange
  }

  get isOn(): boolean {
    return this.#begunAtMs !== null
  }

  begin(error: unknown): void {
    if (this.#begunAtMs !== null) return
    this.#begunAtMs = performance.now()
    const { message, code } = error as { message: string; code?: string }
    this.#log.warn({ err: message, code }, 'results cannot be written; dispatching is paused')
    this.#onChange(true)
  }

  /** Ends the outage when the database takes writes again. */
  end(): void {
    if (this.#begunAtMs === null) return
    const awayMs = Math.round(performance.now() - this.#begunAtMs)
    this.#begunAtMs = null
    this.#log.info({ awayMs }, 'results are written again; dispatching resumes')
    this.#onChange(false)
    for (const go of this.#waiting.splice(0)) go()
  }

  over(): Promise<void> {
    if (!this.isOn) return Promise.resolve()
    return new Promise((resolve) => this.#waiting.push(resolve))
  }
}
