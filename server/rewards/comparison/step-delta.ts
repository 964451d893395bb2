import { Z_95 } from '../../contract/intervals.ts'

export interface StepScores {
  step: number
  batchId: string
  n: number | null
  mean: number | null
  /** The standard error of the mean over groups; null with fewer than two groups. */
  meanError: number | null
}

/**
 * Computes the difference of the means (other − first) at each step where both runs have a standard error, with its
 * 95 % interval from the normal distribution and the standard error √(e₁² + e₂²). The errors e₁ and e₂ are computed
 * over groups, because the samples of a group are not independent.
 */
export function stepDeltas(first: readonly StepScores[], other: readonly StepScores[]) {
  const known = new Map(first.map((at) => [at.step, at]))
  return other.flatMap((b) => {
    const a = known.get(b.step)
    if (a === undefined || !hasInterval(a) || !hasInterval(b)) return []
    const delta = b.mean - a.mean
    const half = Z_95 * Math.sqrt(a.meanError ** 2 + b.meanError ** 2)
    if (!Number.isFinite(half)) return []
    return [
      {
        ...{ step: b.step, delta, low: delta - half, high: delta + half },
        ...{ nFirst: a.n, nOther: b.n, firstBatch: a.batchId, otherBatch: b.batchId },
      },
    ]
  })
}

type WithInterval = StepScores & { n: number; mean: number; meanError: number }

function hasInterval(at: StepScores): at is WithInterval {
  return at.n !== null && at.mean !== null && at.meanError !== null
}
