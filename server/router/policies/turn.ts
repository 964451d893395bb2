/**
 * Breaks ties in turn: of equally good servers, the next by id after the last one taken, cyclically. Taking the first
 * instead would give every sample of an idle pool to one server.
 */
export class Turn {
  #last = Number.NEGATIVE_INFINITY

  /** Whether `a` comes before `b`. */
  before(a: number, b: number): boolean {
    return a > this.#last === b > this.#last ? a < b : a > this.#last
  }

  /** Records the server taken, with or without a tie. */
  took(id: number): void {
    this.#last = id
  }
}
