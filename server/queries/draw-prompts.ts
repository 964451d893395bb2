import { randomInt } from 'node:crypto'
import type { PromptSampleInput } from '../contract/prompts.ts'
import { SeededRandom } from '../router/policies/seeded-random.ts'
import { KEY_PREFIX_BYTES, type PassClass } from '../store/sql/prompts.ts'

const MAX_SUMMED = 64
/**
 * Number of random numbers that are multiplied before the logarithm is taken. The smallest random number is 2^-32, and
 * the product must stay above 2^-1022.
 */
const MULTIPLIED = 16
const PORTION = 1_024
/**
 * Number of equal ranges into which ranks from 0 to 1 are divided. Only prompts up to the range of the last drawn
 * prompt are sorted.
 */
const RANGES = 4_096

/**
 * Draws `n` prompts by their recent pass rates, or fewer if fewer are eligible. The random numbers of a prompt depend
 * only on the seed and the prompt's key, so the result does not depend on the order in which the prompts were read.
 * @returns the key prefixes of the drawn prompts, in hexadecimal
 */
export function* drawPrompts(
  classes: readonly PassClass[],
  { strategy, n, band, target, seed = randomInt(2 ** 32 - 1) }: PromptSampleInput,
): Generator<void, { keys: string[]; eligible: number }> {
  const random = new SeededRandom(seed)
  const counts = new Uint32Array(RANGES + 1)
  const ranked: { keys: Buffer; ranks: Float64Array }[] = []
  let eligible = 0
  for (const { scored, passed, keys } of classes) {
    if (strategy === 'band' && (passed / scored < band.from || passed / scored > band.to)) continue
    const ranks = new Float64Array(keys.length / KEY_PREFIX_BYTES)
    for (let at = 0; at < ranks.length; at++) {
      if (eligible++ % PORTION === 0) yield
      random.reseed(seed ^ keys.readUInt32BE(at * KEY_PREFIX_BYTES))
      const rank =
        strategy === 'band'
          ? random.next()
          : Math.abs(beta(1 + passed, 1 + scored - passed, random) - target)
      ranks[at] = rank
      ;(counts[Math.floor(rank * RANGES)] as number)++
    }
    ranked.push({ keys, ranks })
  }
  let last = 0
  for (let sum = counts[0] as number; sum < Math.min(n, eligible); sum += counts[last] as number)
    last++
  const near: { key: string; rank: number }[] = []
  for (const { keys, ranks } of ranked) {
    for (let at = 0; at < ranks.length; at++) {
      const rank = ranks[at] as number
      if (Math.floor(rank * RANGES) > last) continue
      const start = at * KEY_PREFIX_BYTES
      near.push({ key: keys.toString('hex', start, start + KEY_PREFIX_BYTES), rank })
    }
    yield
  }
  near.sort((a, b) => a.rank - b.rank || (a.key < b.key ? -1 : 1))
  return { keys: near.slice(0, n).map((one) => one.key), eligible }
}

function beta(a: number, b: number, random: SeededRandom): number {
  const x = gamma(a, random)
  return x / (x + gamma(b, random))
}

/**
 * Draws from a gamma distribution with an integer shape parameter. Above 64, Wilson and Hilferty's approximation is
 * used.
 */
function gamma(shape: number, random: SeededRandom): number {
  if (shape <= MAX_SUMMED) {
    let sum = 0
    for (let left = shape; left > 0; left -= MULTIPLIED) {
      let product = 1
      for (let i = Math.min(left, MULTIPLIED); i > 0; i--) product *= 1 - random.next()
      sum -= Math.log(product)
    }
    return sum
  }
  const normal = Math.sqrt(-2 * Math.log(1 - random.next())) * Math.cos(2 * Math.PI * random.next())
  return shape * (1 - 1 / (9 * shape) + normal / (3 * Math.sqrt(shape))) ** 3
}
