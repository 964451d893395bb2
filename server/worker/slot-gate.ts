/** Admits as many callers as there are slots, in order of arrival. The number of slots may change at any time. */
export class SlotGate {
  #slots = 0
  #inside = 0
  readonly #waiting: { enter: () => void; signal: AbortSignal }[] = []

  get inside(): number {
    return this.#inside
  }

  get demand(): number {
    return this.#inside + this.#waiting.length
  }

  setSlots(slots: number): void {
    this.#slots = slots
    this.#admit()
  }

  /** Resolves to true when a slot is acquired, which `leave` releases; to false when the signal aborts. */
  enter(signal: AbortSignal): Promise<boolean> {
    if (signal.aborted) return Promise.resolve(false)
    return new Promise((resolve) => {
      const entry = {
        signal,
        enter: () => {
          signal.removeEventListener('abort', abort)
          resolve(true)
        },
      }
      const abort = () => {
        const at = this.#waiting.indexOf(entry)
        if (at >= 0) this.#waiting.splice(at, 1)
        resolve(false)
      }
      signal.addEventListener('abort', abort, { once: true })
      this.#waiting.push(entry)
      this.#admit()
    })
  }

  leave(): void {
    this.#inside--
    this.#admit()
  }

  #admit(): void {
    while (this.#inside < this.#slots && this.#waiting.length > 0) {
      this.#inside++
      this.#waiting.shift()!.enter()
    }
  }
}
