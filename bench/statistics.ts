/** The `q`-quantile of the values with linear interpolation; NaN if there are no values. */
export function quantile(values: readonly number[], q: number): number {
  if (values.length === 0) return Number.NaN
  const sorted = values.toSorted((a, b) => a - b)
  const at = (sorted.length - 1) * q
  const below = sorted[Math.floor(at)]!
  const above = sorted[Math.ceil(at)]!
  return below + (above - below) * (at - Math.floor(at))
}

/** The median; NaN if there are no values. */
export function median(values: readonly number[]): number {
  return quantile(values, 0.5)
}

export function rounded(value: number, decimals = 0): number {
  const factor = 10 ** decimals
  return Math.round(value * factor) / factor
}

/** The `p`-quantile of Student's t distribution, exact to about six digits. */
export function studentQuantile(p: number, degreesOfFreedom: number): number {
  // With t = √df · tan θ the density is proportional to cos^(df − 1) θ, on a finite range of θ.
  const steps = 20_000
  const width = Math.PI / 2 / steps
  const density = (step: number) => Math.cos((step + 0.5) * width) ** (degreesOfFreedom - 1)
  let half = 0
  for (let step = 0; step < steps; step++) half += density(step)
  const wanted = Math.abs(2 * p - 1) * half
  let sum = 0
  let step = 0
  for (; step < steps && sum + density(step) < wanted; step++) sum += density(step)
  const theta = (step + (wanted - sum) / density(step)) * width
  return Math.sign(p - 0.5) * Math.sqrt(degreesOfFreedom) * Math.tan(theta)
}

/** The difference of `ours` from `theirs`, in percent of `theirs`. */
export interface PairedDifference {
  pairs: number
  medianPercent: number
  /** The 95 % confidence interval of the mean difference; null for fewer than two pairs. */
  lowPercent: number | null
  highPercent: number | null
}

/**
 * The difference of paired measurements, by Student's t on the logarithms of their ratios. Ratios are used because a
 * slow period of the machine multiplies both measurements of a pair.
 */
export function pairedDifference(
  pairs: readonly { ours: number; theirs: number }[],
): PairedDifference {
  const logs = pairs.map(({ ours, theirs }) => Math.log(ours / theirs))
  const percent = (log: number) => Math.expm1(log) * 100
  const n = logs.length
  const medianPercent = percent(median(logs))
  if (n < 2) return { pairs: n, medianPercent, lowPercent: null, highPercent: null }
  const mean = logs.reduce((sum, log) => sum + log, 0) / n
  const variance = logs.reduce((sum, log) => sum + (log - mean) ** 2, 0) / (n - 1)
  const margin = studentQuantile(0.975, n - 1) * Math.sqrt(variance / n)
  return {
    pairs: n,
    medianPercent,
    lowPercent: percent(mean - margin),
    highPercent: percent(mean + margin),
  }
}
