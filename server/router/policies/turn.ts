/**
 * Breaks ties round robin: of equally good servers, it takes the next by id after the server taken last, cyclically. If
 * the first one were always taken, an idle pool would send every sample to one server.
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
