import { Z_95 as Z } from '../../server/contract/intervals.ts'

/**
 * The 95 % confidence interval of a mean of scores in [`min`, `max`], from its standard error over groups. It is
 * Wilson's interval for the number of independent samples that would have this standard error. Null if the standard
 * error is unknown or all scores are equal.
 * @param error the standard error; null if it is unknown, for example for a single group
 */
export function meanInterval(
  { mean, error, groups }: { mean: number; error: number | null; groups: number },
  { min, max }: { min: number; max: number },
): [number, number] | null {
  if (error === null || max <= min) return null
  const rate = (mean - min) / (max - min)
  const variance = (error / (max - min)) ** 2
  // Without any variation, each group counts as one sample.
  const n = variance > 0 ? (rate * (1 - rate)) / variance : groups
  const center = (rate + Z ** 2 / (2 * n)) / (1 + Z ** 2 / n)
  const half = (Z * Math.sqrt((rate * (1 - rate)) / n + Z ** 2 / (4 * n ** 2))) / (1 + Z ** 2 / n)
  const at = (share: number) => min + Math.min(1, Math.max(0, share)) * (max - min)
  return [at(center - half), at(center + half)]
}
