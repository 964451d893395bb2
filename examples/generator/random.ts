/** A generator of random numbers, which are the same on every machine for the same seed. */
export interface Draw {
  /** A number in [0, 1). */
  unit(): number
  /** An integer from `from` to `to`, inclusive. */
  integer(from: number, to: number): number
  pick<T>(items: readonly T[]): T
  chance(probability: number): boolean
}

/** The generator mulberry32. Its 32 bits of state are enough for a few thousand numbers. */
export function drawFrom(seed: number): Draw {
  let state = seed >>> 0
  const unit = (): number => {
    state = (state + 0x6d2b79f5) >>> 0
    let t = state
    t = Math.imul(t ^ (t >>> 15), t | 1)
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61)
    return ((t ^ (t >>> 14)) >>> 0) / 0x1_0000_0000
  }
  return {
    unit,
    integer: (from, to) => from + Math.floor(unit() * (to - from + 1)),
    pick: (items) => items[Math.floor(unit() * items.length)]!,
    chance: (probability) => unit() < probability,
  }
}
