export interface Vote<T> {
  id: number
  /** Time from which the server's baseline applies, in epoch ms. */
  sinceMs: number
  calibration: T
  drifted: boolean
}

/**
 * Returns the ids of the servers of a pool that score differently from the rest: those outside the largest set of
 * servers that agree with one server of the set. If two sets are equally large, the set with more servers without drift
 * wins, then the set with the oldest member. In a pool of two servers, the newer one is therefore the outlier.
 */
export function outliersOf<T>(
  votes: readonly Vote<T>[],
  differs: (a: T, b: T) => boolean,
): Set<number> {
  let best: { agree: Vote<T>[]; steady: number; first: number } | null = null
  for (const vote of votes) {
    const agree = votes.filter((other) => !differs(vote.calibration, other.calibration))
    const steady = agree.filter((other) => !other.drifted).length
    const first = Math.min(...agree.map((other) => other.sinceMs))
    const better =
      best === null ||
      agree.length > best.agree.length ||
      (agree.length === best.agree.length &&
        (steady > best.steady || (steady === best.steady && first < best.first)))
    if (better) best = { agree, steady, first }
  }
  const right = new Set(best?.agree.map((vote) => vote.id))
  return new Set(votes.map((vote) => vote.id).filter((id) => !right.has(id)))
}
