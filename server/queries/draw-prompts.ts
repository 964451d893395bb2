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
  const drawn: { at: number; rank: number }[] = []
  const keyOf = ({ at }: { at: number }) => key[at] as string
  for (let at = 0; at < key.length; at++) {
    if (at % PORTION === 0) yield
    const [n, c] = [scored[at] as number, passed[at] as number]
    // Each prompt has its own numbers, so the result does not depend on the order in which the rows were read.
    const random = seededRandom(seed ^ Number.parseInt((key[at] as string).slice(0, 8), 16))
    if (strategy === 'thompson') {
      drawn.push({ at, rank: Math.abs(beta(1 + c, 1 + n - c, random) - target) })
    } else if (c / n >= band.from && c / n <= band.to) {
      drawn.push({ at, rank: random() })
    }
  }
  drawn.sort((a, b) => a.rank - b.rank || (keyOf(a) < keyOf(b) ? -1 : 1))
  return { keys: drawn.slice(0, n).map(({ at }) => key[at] as string), eligible: drawn.length }
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
