/**
 * Requests to stop, heard from the first line that a process runs: the entry files import this module before anything
 * else, since loading the rest takes longer than a supervisor may wait. It imports nothing itself.
 *
 *   starting ──serve()──▶ serving
 *      │ request             │ request
 *      ▼                     ▼
 *   cleanups, exit 0      the handler given to serve()
 */

/** All clean-ups of a start that is given up have to be over by then. */
const CLEAN_UP_MS = 7_500
/** A process that a lost parent stops is gone after this time, whatever it waits for. */
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

  /** Something to be undone should the start be given up; the newest is undone first. */
  whileStarting(cleanUp: () => Promise<unknown> | undefined): void {
    this.#cleanUps.push(cleanUp)
  }

  /** The start is over: requests go to the handler. */
  serve(handler: Handler): void {
    this.#handler = handler
  }

  /** A request to stop, by a signal or because the parent is gone. */
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
    // What is being started may register more while the others are undone.
    for (;;) {
      const cleanUp = this.#cleanUps.pop()
      if (cleanUp === undefined) break
      try {
        await cleanUp()
      } catch {
        // It was not up yet; the process ends either way.
      }
    }
    process.exit(0)
  }
}

/** Started by a server over a channel, whose end is the server's. */
const isLocalWorker = process.argv.includes('--local')

/** The requests to this process. */
export const stopRequests = new StopRequests()

process.on('SIGTERM', () => stopRequests.request('SIGTERM'))
// Ctrl-C reaches the whole process group: a local worker is stopped by its server, through SIGTERM or by its end.
process.on('SIGINT', () => {
  if (!isLocalWorker) stopRequests.request('SIGINT')
})
if (isLocalWorker) {
  const orphaned = () => {
    setTimeout(() => process.exit(0), ORPHAN_MS).unref()
    stopRequests.request('the server went away')
  }
  process.once('disconnect', orphaned)
  // The parent may have ended before there was a listener.
  if (!process.connected) orphaned()
}
