const WINDOW_MS = 5_000

/** Rates per second of counters that are read at intervals, over about the last 5 s. */
export class RateMeter {
  readonly #readings = new Map<number, { at: number; count: number }[]>()

  /** Records a reading and returns the rate over the window; 0 while the readings span less than 100 ms. */
  rate(key: number, count: number): number {
    const now = performance.now()
    const list = this.#readings.get(key) ?? []
    this.#readings.set(key, list)
    const last = list.at(-1)
    if (!last || now - last.at > 200) list.push({ at: now, count })
    while (list.length > 2 && now - list[0]!.at > WINDOW_MS) list.shift()
    if (this.#readings.size > 500)
      this.#readings.delete(this.#readings.keys().next().value as number)
    const first = list[0]!
    return now - first.at < 100
      ? 0
      : Math.max(0, ((count - first.count) / (now - first.at)) * 1_000)
  }
}
