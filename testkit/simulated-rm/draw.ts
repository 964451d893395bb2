/** A number in [0, 1) computed from a draw, a seed and a purpose (murmur3's finalizer). */
export function uniformOf(draw: number, seed: number, purpose: number): number {
  let h = Math.imul(draw ^ Math.imul(seed, 0x9e3779b1) ^ Math.imul(purpose, 0x85ebca6b), 0xcc9e2d51)
  h = Math.imul(h ^ (h >>> 16), 0x85ebca6b)
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35)
  return ((h ^ (h >>> 16)) >>> 0) / 0x1_0000_0000
}

export class Draws {
  readonly #seed: number
  readonly #purpose: number
  #count = 0

  constructor(seed: number, purpose = 0x5bd1) {
    this.#seed = seed
    this.#purpose = purpose
  }

  next(): number {
    return uniformOf(this.#count++, this.#seed, this.#purpose)
  }

  /** A standard normal number (Box–Muller). */
  normal(): number {
    const radius = Math.sqrt(-2 * Math.log(1 - this.next()))
    return radius * Math.cos(2 * Math.PI * this.next())
  }
}
