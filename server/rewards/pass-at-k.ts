import type { AtK } from '../contract/prompts.ts'

/** The number of groups in which `passed` of `n` counted scores pass. */
export interface PassCount {
  n: number
  passed: number
  groups: number
}

/**
 * pass@k, the probability that at least one of k samples passes: the mean of `1 − C(n−c, k) / C(n, k)` over the groups
 * with at least k counted scores. The estimate is unbiased for each group. Source: Chen et al. 2021, Evaluating Large
 * Language Models Trained on Code, equation 1.
 * @returns null if there are no such groups
 */
export function passAtK(counts: readonly PassCount[], k: number): AtK | null {
  let sum = 0
  let groups = 0
  for (const { n, passed, groups: of } of counts) {
    if (n < k) continue
    groups += of
    sum += of * (1 - noneOf(n, passed, k))
  }
  return groups === 0 ? null : { k, groups, value: sum / groups }
}

/** `C(n−c, k) / C(n, k)`, as a product that does not overflow. */
function noneOf(n: number, passed: number, k: number): number {
  if (n - passed < k) return 0
  let product = 1
  for (let i = n - passed + 1; i <= n; i++) product *= 1 - k / i
  return product
}

/**
 * The expected highest of k scores drawn from `ascending` without replacement, unbiased for k independent samples: the
 * sum of `C(i−1, k−1) / C(n, k)` times the i-th lowest score.
 * @param ascending at least k scores
 */
export function bestOfK(ascending: readonly number[], k: number): number {
  let weight = k / ascending.length
  let sum = 0
  // From the highest score down: C(i−2, k−1) / C(i−1, k−1) = (i − k) / (i − 1).
  for (let i = ascending.length; i >= k; i--) {
    sum += weight * (ascending[i - 1] as number)
    if (i > 1) weight *= (i - k) / (i - 1)
  }
  return sum
}

export function reportedK(n: number): number[] {
  const out: number[] = []
  for (let k = 1; k <= n; k *= 2) out.push(k)
  return out
}
