/** Uniform numbers in [0, 1), reproducible by seed: a Weyl sequence through a 32-bit finalizer. */
export class SeededRandom {
  #state: number

  constructor(seed: number) {
    this.#state = seed | 0
  }

  reseed(seed: number): void {
    this.#state = seed | 0
  }

  next(): number {
    this.#state = (this.#state + 0x9e3779b9) | 0
    let bits = this.#state
    bits = Math.imul(bits ^ (bits >>> 16), 0x21f0aaad)
    bits = Math.imul(bits ^ (bits >>> 15), 0x735a2d97)
    return ((bits ^ (bits >>> 15)) >>> 0) / 2 ** 32
  }
}

export function seededRandom(seed: number): () => number {
  const numbers = new SeededRandom(seed)
  return () => numbers.next()
}
