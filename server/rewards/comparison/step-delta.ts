import { Z_95 } from '../../contract/intervals.ts'

export interface StepScores {
  step: number
  batchId: string
  n: number | null
  mean: number | null
  /** Sample standard deviation (divisor n − 1). */
  std: number | null
}

/**
 * Computes the difference of the means (other − first) at each step that both runs have, with its 95 % interval from
 * the normal distribution and Welch's standard error √(s₁²/n₁ + s₂²/n₂). Samples are assumed independent. Those of one
 * group are not, so the true interval is wider, by a factor of at most √(group size).
 */
export function stepDeltas(first: readonly StepScores[], other: readonly StepScores[]) {
  const known = new Map(first.map((at) => [at.step, at]))
  return other.flatMap((b) => {
    const a = known.get(b.step)
    if (a === undefined || !hasInterval(a) || !hasInterval(b)) return []
    const delta = b.mean - a.mean
    const half = Z_95 * Math.sqrt(a.std ** 2 / a.n + b.std ** 2 / b.n)
    if (!Number.isFinite(half)) return []
    return [
      {
        ...{ step: b.step, delta, low: delta - half, high: delta + half },
        ...{ nFirst: a.n, nOther: b.n, firstBatch: a.batchId, otherBatch: b.batchId },
      },
    ]
  })
}

function hasInterval(at: StepScores): at is StepScores & { n: number; mean: number; std: number } {
  return at.n !== null && at.n >= 2 && at.mean !== null && at.std !== null
}
