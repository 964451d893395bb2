/** The product's timeouts, ms. Half of the fault durations are drawn close to them. */
export const PRODUCT_TIMEOUTS_MS = [650, 2_000, 5_000, 10_000] as const

/** A seeded random source (mulberry32): the same seed gives the same schedule on every machine. */
export class Random {
  #state: number

  constructor(seed: number) {
    this.#state = seed >>> 0
  }

  /** A number from 0 (included) to 1 (excluded). */
  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0
    let t = this.#state
    t = Math.imul(t ^ (t >>> 15), t | 1)
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61)
    return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296
  }

  /** An integer from `min` to `max`, both included. */
  int(min: number, max: number): number {
    return min + Math.floor(this.next() * (max - min + 1))
  }

  chance(probability: number): boolean {
    return this.next() < probability
  }

  pick<T>(items: readonly T[]): T {
    return items[this.int(0, items.length - 1)] as T
  }

  logUniform(min: number, max: number): number {
    return min * (max / min) ** this.next()
  }

  /**
   * Draws the duration of a fault, ms: half of the draws are log-uniform from 10 ms to `maxMs`, half lie within ± 0.5 s
   * of one of the product's timeouts, which uniform draws would rarely hit.
   */
  faultMs(maxMs = 30_000): number {
    const around = PRODUCT_TIMEOUTS_MS.filter((timeout) => timeout <= maxMs)
    if (around.length === 0 || this.chance(0.5)) return Math.round(this.logUniform(10, maxMs))
    return Math.max(10, Math.round(this.pick(around) + (this.next() - 0.5) * 1_000))
  }

  fork(name: string): Random {
    return new Random(hash32(`${this.#state}/${name}`))
  }
}

export function hash32(text: string): number {
  let h = 0x811c9dc5
  for (let i = 0; i < text.length; i++) h = Math.imul(h ^ text.charCodeAt(i), 0x01000193)
  h ^= h >>> 16
  h = Math.imul(h, 0x85ebca6b)
  h ^= h >>> 13
  h = Math.imul(h, 0xc2b2ae35)
  return (h ^ (h >>> 16)) >>> 0
}
