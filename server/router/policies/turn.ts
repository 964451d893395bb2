/**
 * Breaks ties in turn: of servers that are equally good, the next by id after the one taken last, round and round.
 * Taking the first instead would give every sample of an idle pool to one server.
 */
export class Turn {
  #last = Number.NEGATIVE_INFINITY

  /** True when `a` comes before `b`. */
  before(a: number, b: number): boolean {
    return a > this.#last === b > this.#last ? a < b : a > this.#last
  }

  /** Notes who was taken, by a tie or not. */
  took(id: number): void {
    this.#last = id
  }
}
