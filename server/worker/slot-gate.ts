export interface GateSlot {
  /** Aborts after the slot's lease and grace period have ended, because other processes may then use the slot. */
  readonly recalled: AbortSignal
  /** Releases the slot. Must be called exactly once. */
  leave(): void
}

/** Admits as many callers as there are slots, in order of arrival. The number of slots may change at any time. */
export class SlotGate {
  #slots = 0
  readonly #inside = new Set<AbortController>()
  readonly #waiting: { enter: () => void; signal: AbortSignal }[] = []

  get inside(): number {
    return this.#inside.size
  }

  get demand(): number {
    return this.#inside.size + this.#waiting.length
  }

  setSlots(slots: number): void {
    this.#slots = slots
    this.#admit()
  }

  /** Recalls the slots in use. They count as used until their calls leave. */
  recall(): void {
    for (const slot of this.#inside) slot.abort()
  }

  /** Waits for a slot. Returns null if the signal aborts first. */
  enter(signal: AbortSignal): Promise<GateSlot | null> {
    if (signal.aborted) return Promise.resolve(null)
    return new Promise((resolve) => {
      const entry = {
        signal,
        enter: () => {
          signal.removeEventListener('abort', abort)
          resolve(this.#take())
        },
      }
      const abort = () => {
        const at = this.#waiting.indexOf(entry)
        if (at >= 0) this.#waiting.splice(at, 1)
        resolve(null)
      }
      signal.addEventListener('abort', abort, { once: true })
      this.#waiting.push(entry)
      this.#admit()
    })
  }

  #take(): GateSlot {
    const slot = new AbortController()
    this.#inside.add(slot)
    return {
      recalled: slot.signal,
      leave: () => {
        this.#inside.delete(slot)
        this.#admit()
      },
    }
  }

  #admit(): void {
    while (this.#inside.size < this.#slots && this.#waiting.length > 0) {
      this.#waiting.shift()!.enter()
    }
  }
}
