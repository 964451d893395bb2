import type { Logger } from '../log.ts'

/**
 * Whether this worker's results can be written. While they cannot, it begins nothing new: what it scored stays in memory,
 * and that is at most what it had claimed.
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

  /** Results could not be written. */
  begin(error: unknown): void {
    if (this.#begunAtMs !== null) return
    this.#begunAtMs = performance.now()
    const { message, code } = error as { message: string; code?: string }
    this.#log.warn({ err: message, code }, 'results cannot be written; dispatching stops')
    this.#onChange(true)
  }

  /** Results were written. */
  end(): void {
    if (this.#begunAtMs === null) return
    const awayMs = Math.round(performance.now() - this.#begunAtMs)
    this.#begunAtMs = null
    this.#log.info({ awayMs }, 'results are written again; dispatching goes on')
    this.#onChange(false)
    for (const go of this.#waiting.splice(0)) go()
  }

  /** Resolves when results can be written; at once where they can. */
  over(): Promise<void> {
    if (!this.isOn) return Promise.resolve()
    return new Promise((resolve) => this.#waiting.push(resolve))
  }
}
