/** Something that comes due. Links are the wheel's; an entry is in at most one wheel at a time. */
export interface WheelEntry {
  /** On the clock of `performance.now()`. */
  dueAtMs: number
  wheelNext: WheelEntry | null
  wheelPrev: WheelEntry | null
  /** Slot of the wheel it hangs in; −1: in none. */
  wheelSlot: number
}

/** How late an entry may be called, in ms, on an idle loop. It is never early. */
export const WHEEL_TICK_MS = 10
/** 5.12 s a turn; what is due later waits in its slot and is looked at once a turn. */
const SLOT_COUNT = 512

/**
 * One timer for many deadlines: adding and removing an entry is a few assignments, where a `setTimeout` a call costs
 * about 1 µs and, with durations that all differ (time remaining), a list and a heap entry each.
 * The timer runs only while there are entries, and keeps the process alive just so long.
 */
export class TimerWheel<T extends WheelEntry> {
  readonly #slots: (WheelEntry | null)[] = new Array<WheelEntry | null>(SLOT_COUNT).fill(null)
  readonly #onDue: (entry: T) => void
  #timer: NodeJS.Timeout | null = null
  #size = 0
  /** The last tick whose slot was looked at. */
  #tick = 0

  constructor(onDue: (entry: T) => void) {
    this.#onDue = onDue
  }

  /** How many entries wait. */
  get size(): number {
    return this.#size
  }

  /** Hangs an entry in; it must be in no wheel. */
  add(entry: T): void {
    if (this.#timer === null) {
      this.#tick = Math.floor(performance.now() / WHEEL_TICK_MS)
      this.#timer = setInterval(() => this.#advance(), WHEEL_TICK_MS)
    }
    // At least the next tick: the slot of the current one has been looked at.
    const tick = Math.max(this.#tick + 1, Math.ceil(entry.dueAtMs / WHEEL_TICK_MS))
    const slot = tick % SLOT_COUNT
    const head = this.#slots[slot] as WheelEntry | null
    entry.wheelSlot = slot
    entry.wheelPrev = null
    entry.wheelNext = head
    if (head !== null) head.wheelPrev = entry
    this.#slots[slot] = entry
    this.#size++
  }

  /** Takes an entry out; nothing happens if it is in none. */
  remove(entry: T): void {
    if (entry.wheelSlot < 0) return
    const { wheelNext, wheelPrev } = entry
    if (wheelPrev === null) this.#slots[entry.wheelSlot] = wheelNext
    else wheelPrev.wheelNext = wheelNext
    if (wheelNext !== null) wheelNext.wheelPrev = wheelPrev
    entry.wheelSlot = -1
    entry.wheelNext = null
    entry.wheelPrev = null
    this.#size--
  }

  #advance(): void {
    const now = performance.now()
    const target = Math.floor(now / WHEEL_TICK_MS)
    // After a stall of the loop longer than a turn, one look at every slot is enough.
    const from = Math.max(this.#tick + 1, target - SLOT_COUNT + 1)
    this.#tick = target
    const due: T[] = []
    for (let tick = from; tick <= target; tick++) {
      let entry = this.#slots[tick % SLOT_COUNT] as T | null
      while (entry !== null) {
        const next = entry.wheelNext as T | null
        if (entry.dueAtMs <= now) {
          this.remove(entry)
          due.push(entry)
        }
        entry = next
      }
    }
    for (const entry of due) this.#onDue(entry)
    if (this.#size === 0 && this.#timer !== null) {
      clearInterval(this.#timer)
      this.#timer = null
    }
  }
}
