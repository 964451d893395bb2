import type { LimitClock } from '../clock.ts'

export class TestClock implements LimitClock {
  #nowMs = 0
  #timers: { atMs: number; callback: () => void }[] = []

  nowMs(): number {
    return this.#nowMs
  }

  after(ms: number, callback: () => void): () => void {
    const timer = { atMs: this.#nowMs + ms, callback }
    this.#timers.push(timer)
    return () => {
      this.#timers = this.#timers.filter((other) => other !== timer)
    }
  }

  sleep(ms: number): Promise<void> {
    return new Promise((resolve) => this.after(ms, resolve))
  }

  async pass(ms: number): Promise<void> {
    const untilMs = this.#nowMs + ms
    await this.#idle()
    while (await this.#next(untilMs)) await this.#idle()
    this.#nowMs = untilMs
  }

  async until<Value>(promise: Promise<Value>): Promise<Value> {
    let settled = false
    const mark = () => {
      settled = true
    }
    promise.then(mark, mark)
    await this.#idle()
    while (!settled) {
      if (!(await this.#next(Number.POSITIVE_INFINITY))) {
        throw new Error('no timer is left, but the promise has not settled')
      }
      await this.#idle()
    }
    return promise
  }

  async #next(untilMs: number): Promise<boolean> {
    let due: { atMs: number; callback: () => void } | undefined
    for (const timer of this.#timers) {
      if (timer.atMs <= untilMs && (due === undefined || timer.atMs < due.atMs)) due = timer
    }
    if (due === undefined) return false
    this.#timers = this.#timers.filter((other) => other !== due)
    this.#nowMs = Math.max(this.#nowMs, due.atMs)
    due.callback()
    return true
  }

  async #idle(): Promise<void> {
    for (let turn = 0; turn < 3; turn++) await new Promise((resolve) => setImmediate(resolve))
  }
}
