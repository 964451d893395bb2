import { onceRead } from '../with-timeout.ts'

/** An entry with a due time. The wheel owns the links. An entry is in at most one wheel at a time. */
export interface WheelEntry {
  /** The due time, on the clock of `performance.now()`. */
  dueAtMs: number
  wheelNext: WheelEntry | null
  wheelPrev: WheelEntry | null
  /** Slot of the wheel that contains the entry, or −1 if none does. */
  wheelSlot: number
}

/**
 * Interval of the wheel's timer in ms. On an idle event loop, `onDue` is called at most two intervals late, and never
 * early.
 */
export const WHEEL_TICK_MS = 10
/** Number of slots; one turn of the wheel takes 5.12 s. Entries that are due later are checked once per turn. */
const SLOT_COUNT = 512

/**
 * One timer for many due times. Adding or removing an entry takes a few assignments. A `setTimeout` per sample would
 * cost about 1 µs and, because all durations differ, a timer list and a heap entry in Node. The timer runs, and keeps
 * the process alive, only while there are entries.
 */
export class TimerWheel<T extends WheelEntry> {
  readonly #slots: (WheelEntry | null)[] = new Array<WheelEntry | null>(SLOT_COUNT).fill(null)
  readonly #onDue: (entry: T) => void
  #timer: NodeJS.Timeout | null = null
  #size = 0
  #tick = 0
  /** Runs after the answers that have arrived are read, so that their calls do not count as late. */
  readonly #onTick = () => this.#advance()

  constructor(onDue: (entry: T) => void) {
    this.#onDue = onDue
  }

  get size(): number {
    return this.#size
  }

  /** Adds an entry that is in no wheel. */
  add(entry: T): void {
    if (this.#timer === null) {
      this.#tick = Math.floor(performance.now() / WHEEL_TICK_MS)
      this.#timer = setInterval(() => onceRead(this.#onTick), WHEEL_TICK_MS)
    }
    // The earliest tick is the next one, because the slot of the current one was already processed.
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
    // After the event loop was blocked for longer than a turn, one pass over all slots is enough.
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
