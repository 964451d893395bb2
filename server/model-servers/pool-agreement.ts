/** A server's calibration score, as it is compared with its pool's. */
export interface Vote<T> {
  id: number
  /** Since when it is held to what it scores, epoch ms. */
  sinceMs: number
  calibration: T
  /** It differs from the server's own of before. */
  drifted: boolean
}

/**
 * Which servers of a pool score otherwise than the rest: those outside the largest set that agrees with one of its
 * members. Of two sets as large, the one with more servers that did not drift is taken for right, then the one whose
 * first member has been there longest: with two servers the later one is the odd one out.
 */
export function oddOnesOut<T>(
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
