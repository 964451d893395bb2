import { randomInt } from 'node:crypto'
import type { PromptSampleInput } from '../contract/prompts.ts'
import { seededRandom } from '../router/policies/seeded-random.ts'
import type { PassColumns } from '../store/sql/prompts.ts'

/** Shape of a gamma distribution up to which it is drawn as a sum of exponentials. */
const MAX_SUMMED = 64
/** Prompts between two yields. */
const PORTION = 1_024

/** Draws prompts by their recent pass rates; fewer than `n` only if fewer are eligible. */
export function* drawPrompts(
  { key, scored, passed }: PassColumns,
  { strategy, n, band, target, seed = randomInt(2 ** 32 - 1) }: PromptSampleInput,
): Generator<void, { keys: string[]; eligible: number }> {
  const ranks = new Float64Array(key.length).fill(Number.POSITIVE_INFINITY)
  let eligible = 0
  for (let at = 0; at < key.length; at++) {
    if (at % PORTION === 0) yield
    const [n, c] = [scored[at] as number, passed[at] as number]
    // Each prompt has its own numbers, so the result does not depend on the order in which the rows were read.
    const random = seededRandom(seed ^ Number.parseInt((key[at] as string).slice(0, 8), 16))
    if (strategy === 'band' && (c / n < band.from || c / n > band.to)) continue
    eligible++
    ranks[at] = strategy === 'band' ? random() : Math.abs(beta(1 + c, 1 + n - c, random) - target)
  }
  // Only the numbers are sorted over all prompts, which takes 20 ms for 200,000.
  const last = ranks.toSorted()[Math.min(n, eligible) - 1] ?? -1
  const drawn: { key: string; rank: number }[] = []
  for (const [at, rank] of ranks.entries()) {
    if (rank <= last) drawn.push({ key: key[at] as string, rank })
  }
  drawn.sort((a, b) => a.rank - b.rank || (a.key < b.key ? -1 : 1))
  return { keys: drawn.slice(0, n).map((one) => one.key), eligible }
}

/** Draws from a beta distribution with integer shape parameters. */
function beta(a: number, b: number, random: () => number): number {
  const x = gamma(a, random)
  return x / (x + gamma(b, random))
}

/** Draws from a gamma distribution with an integer shape parameter; above 64, by Wilson and Hilferty's approximation. */
function gamma(shape: number, random: () => number): number {
  if (shape <= MAX_SUMMED) {
    let sum = 0
    for (let i = 0; i < shape; i++) sum -= Math.log(1 - random())
    return sum
  }
  const normal = Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random())
  return shape * (1 - 1 / (9 * shape) + normal / (3 * Math.sqrt(shape))) ** 3
}
