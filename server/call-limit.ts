/**
 * Limits concurrent calls. Callers may set different limits: a call begins only while fewer calls than its own limit
 * are in flight. Waiting calls run in order of arrival.
 */
export class CallLimit {
  private inFlight = 0
  private readonly waiting: { most: number; enter: () => void }[] = []

  get running(): number {
    return this.inFlight
  }

  get queued(): number {
    return this.waiting.length
  }

  /**
   * Runs `call` when fewer than `most` calls are in flight.
   * @throws the error of `call`; the signal's reason if it aborts during the wait
   */
  async run<T>(call: () => Promise<T>, most: number, signal?: AbortSignal): Promise<T> {
    signal?.throwIfAborted()
    if (this.waiting.length === 0 && this.inFlight < most) this.inFlight++
    else await this.turn(most, signal)
    try {
      return await call()
    } finally {
      this.inFlight--
      this.admit()
    }
  }

  private turn(most: number, signal: AbortSignal | undefined): Promise<void> {
    return new Promise((resolve, reject) => {
      const waiter = {
        most,
        enter: () => {
          signal?.removeEventListener('abort', leave)
          resolve()
        },
      }
      const leave = () => {
        this.waiting.splice(this.waiting.indexOf(waiter), 1)
        reject(signal?.reason)
        // The next waiting call may have a higher limit that lets it begin now.
        this.admit()
      }
      this.waiting.push(waiter)
      signal?.addEventListener('abort', leave, { once: true })
    })
  }

  private admit(): void {
    for (let head = this.waiting[0]; head !== undefined; head = this.waiting[0]) {
      if (this.inFlight >= head.most) return
      this.waiting.shift()
      this.inFlight++
      head.enter()
    }
  }
}
