/** A seeded random source: the same seed gives the same numbers on every machine. */
export interface Draw {
  unit(): number
  integer(from: number, to: number): number
  pick<T>(items: readonly T[]): T
  chance(probability: number): boolean
}

/** mulberry32. Its 32 bits of state are enough for a few thousand numbers. */
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
