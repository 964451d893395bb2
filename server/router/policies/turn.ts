/**
 * Breaks ties round robin: among equally good servers, the next one by id after the last picked server comes first,
 * cyclically. If ties always went to the same server, an idle pool would send every sample to it.
 */
export class Turn {
  #last = Number.NEGATIVE_INFINITY

  before(a: number, b: number): boolean {
    return a > this.#last === b > this.#last ? a < b : a > this.#last
  }

  /** Records the server taken, with or without a tie. */
  took(id: number): void {
    this.#last = id
  }
}
