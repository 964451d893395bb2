/**
 * Handles requests to stop that a process receives at any time, even while it starts. The entry files import this
 * module first, because a request may arrive before all other modules are loaded. This module imports nothing.
 *
 *   starting ──serve()──▶ serving
 *      │ request             │ request
 *      ▼                     ▼
 *   cleanups, exit 0      the handler given to serve()
 */

/** All clean-ups of a cancelled start must finish within this time. */
const CLEAN_UP_MS = 7_500
/** A worker whose parent has died exits after at most this time. */
const ORPHAN_MS = 8_000

type Handler = (why: string) => void

class StopRequests {
  readonly #abort = new AbortController()
  readonly #cleanUps: (() => Promise<unknown> | undefined)[] = []
  #handler: Handler | null = null
  #why: string | null = null

  /** Aborted by the first request. */
  get signal(): AbortSignal {
    return this.#abort.signal
  }

  /** Registers a clean-up that runs if the start is cancelled; the newest runs first. */
  whileStarting(cleanUp: () => Promise<unknown> | undefined): void {
    this.#cleanUps.push(cleanUp)
  }

  serve(handler: Handler): void {
    this.#handler = handler
  }

  /** Requests a stop. A second request during the start exits the process with code 1. */
  request(why: string): void {
    const isFirst = this.#why === null
    this.#why ??= why
    this.#abort.abort()
    if (this.#handler !== null) this.#handler(why)
    else if (isFirst) void this.#giveUp()
    else process.exit(1)
  }

  async #giveUp(): Promise<void> {
    setTimeout(() => process.exit(0), CLEAN_UP_MS)
    // The start still runs and may register more clean-ups in the meantime.
    for (;;) {
      const cleanUp = this.#cleanUps.pop()
      if (cleanUp === undefined) break
      try {
        await cleanUp()
      } catch {
        // The clean-up may fail because its module has not started yet. The process ends either way.
      }
    }
    process.exit(0)
  }
}

/** Whether a server started this process; the channel between them closes when the server ends. */
const isLocalWorker = process.argv.includes('--local')

export const stopRequests = new StopRequests()

process.on('SIGTERM', () => stopRequests.request('SIGTERM'))
// Ctrl-C reaches the whole process group. A local worker ignores it and is stopped by its server, through SIGTERM or
// the closed channel.
process.on('SIGINT', () => {
  if (!isLocalWorker) stopRequests.request('SIGINT')
})
if (isLocalWorker) {
  const orphaned = () => {
    setTimeout(() => process.exit(0), ORPHAN_MS).unref()
    stopRequests.request('the server has ended')
  }
  process.once('disconnect', orphaned)
  // The parent may have ended before the listener was registered.
  if (!process.connected) orphaned()
}
