import type { Budget } from './budget.ts'
import * as complex from './complex.ts'
import { exactValue } from './exact.ts'
import { evaluate, NoValue, type Numeric } from './numeric.ts'
import { compare, type Rational, roundedUnits, toNumber } from './rational.ts'
import { isSame, type Node, symbolsOf, within } from './tree.ts'

/** Decimal places compared for a number with a decimal point: Math-Verify's `float_rounding`. */
const DECIMALS = 6

/** Relative tolerance. Doubles have 16 digits; √2·√2 loses one, an expression of fifty parts four. */
const TOLERANCE = 1e-11
/** Relative tolerance for expressions with symbols, in which cancellation loses more digits. */
const SAMPLED_TOLERANCE = 1e-9

/** Number of points at which expressions with symbols are compared. Most different expressions differ at the first. */
const POINTS = 8
const MIN_POINTS = 3

/** Maximum number of symbols in a comparison. A sentence parsed as a product of letters has up to 26. */
const MAX_SYMBOLS = 64

/**
 * Returns whether two expressions have the same value. Fractions are compared exactly, or to six decimals if one has
 * a decimal point, so 1/3 equals 0.333333. Roots and functions are compared in double precision, expressions with
 * symbols at eight points.
 * @throws TooLarge, OutOfBudget
 */
export function numbersEqual(a: Node, b: Node, budget: Budget): boolean {
  if (isSame(a, b)) return true
  const isRounded = isDecimal(a) || isDecimal(b)
  const exactA = exactValue(a, budget)
  const exactB = exactValue(b, budget)
  if (exactA !== null && exactB !== null) {
    if (compare(exactA, exactB) === 0) return true
    return isRounded && roundedUnits(exactA, DECIMALS) === roundedUnits(exactB, DECIMALS)
  }
  try {
    const symbols = new Set([...symbolsOf(a), ...symbolsOf(b)])
    if (symbols.size > 0) return equalAtPoints(a, b, symbols, budget)
    const numberOf = (node: Node, exact: Rational | null) =>
      exact === null ? evaluate(node, new Map(), budget) : complex.real(toNumber(exact))
    const valueA = numberOf(a, exactA)
    const valueB = numberOf(b, exactB)
    if (Array.isArray(valueA) || Array.isArray(valueB))
      return matricesEqual(a, b, valueA, valueB, budget)
    if (!Number.isFinite(valueA.re) || !Number.isFinite(valueB.re)) {
      return valueA.re === valueB.re && valueA.im === valueB.im && isInfinite(a) && isInfinite(b)
    }
    if (isRounded && valueA.im === 0 && valueB.im === 0) {
      return toUnits(valueA.re) === toUnits(valueB.re)
    }
    return isClose(valueA, valueB, TOLERANCE)
  } catch (error) {
    if (error instanceof NoValue) return false
    throw error
  }
}

function equalAtPoints(a: Node, b: Node, symbols: Set<string>, budget: Budget): boolean {
  let agreed = 0
  for (const values of samplePoints(symbols)) {
    const valueA = evaluate(a, values, budget)
    const valueB = evaluate(b, values, budget)
    if (!isFiniteValue(valueA) || !isFiniteValue(valueB)) continue
    if (!areClose(valueA, valueB)) return false
    agreed++
  }
  return agreed >= MIN_POINTS
}

/** The ratio a/b, or null if it is not constant. 2x − 4 and x − 2 have the ratio 2, so 2x = 4 equals x = 2. */
export function constantFactor(a: Node, b: Node, budget: Budget): number | null {
  const symbols = new Set([...symbolsOf(a), ...symbolsOf(b)])
  let factor: number | null = null
  let agreed = 0
  for (const values of samplePoints(symbols)) {
    const valueA = evaluate(a, values, budget)
    const valueB = evaluate(b, values, budget)
    if (Array.isArray(valueA) || Array.isArray(valueB)) return null
    if (!isFiniteValue(valueA) || !isFiniteValue(valueB)) continue
    const here = complex.divide(valueA, valueB)
    if (!isFiniteValue(here) || here.im !== 0 || here.re === 0) return null
    if (factor !== null && !isClose(complex.real(factor), here, SAMPLED_TOLERANCE)) return null
    factor = here.re
    agreed++
  }
  return agreed >= MIN_POINTS ? factor : null
}

/**
 * Values of the symbols, the same in every call: magnitudes between 0.3 and 3, first all positive, then of either sign.
 * No function has a special value at any of these points.
 */
export function* samplePoints(symbols: ReadonlySet<string>): Generator<Map<string, number>> {
  if (symbols.size > MAX_SYMBOLS) return
  for (let point = 0; point < POINTS; point++) {
    const values = new Map<string, number>()
    for (const name of symbols) {
      let hash = Math.imul(2_166_136_261 ^ point, 16_777_619)
      for (let at = 0; at < name.length; at++) {
        hash = Math.imul(hash ^ name.charCodeAt(at), 16_777_619)
      }
      hash = Math.imul(hash ^ (hash >>> 15), 2_246_822_519)
      const share = ((hash ^ (hash >>> 13)) >>> 0) / 2 ** 32
      const sign = point >= POINTS / 2 && (hash & 64) === 0 ? -1 : 1
      values.set(name, sign * (0.3 + 2.7 * share))
    }
    yield values
  }
}

function matricesEqual(
  a: Node,
  b: Node,
  valueA: Numeric,
  valueB: Numeric,
  budget: Budget,
): boolean {
  if (!Array.isArray(valueA) || !Array.isArray(valueB)) return false
  if (!sameShape(valueA, valueB)) return false
  if (a.kind === 'matrix' && b.kind === 'matrix') {
    return a.rows.every((row, at) =>
      row.every((cell, column) => numbersEqual(cell, b.rows[at]![column]!, budget)),
    )
  }
  return areClose(valueA, valueB)
}

function sameShape(a: readonly unknown[][], b: readonly unknown[][]): boolean {
  return a.length === b.length && a[0]!.length === b[0]!.length
}

function areClose(a: Numeric, b: Numeric): boolean {
  if (Array.isArray(a) && Array.isArray(b)) {
    return (
      sameShape(a, b) &&
      a.every((row, at) =>
        row.every((cell, column) => isClose(cell, b[at]![column]!, SAMPLED_TOLERANCE)),
      )
    )
  }
  if (Array.isArray(a) || Array.isArray(b)) return false
  return isClose(a, b, SAMPLED_TOLERANCE)
}

function isClose(a: complex.Complex, b: complex.Complex, within: number): boolean {
  const difference = complex.size(complex.subtract(a, b))
  const scale = Math.max(complex.size(a), complex.size(b))
  // A result that should be zero consists of rounding errors only, so its tolerance is absolute.
  return difference <= within * Math.max(scale, scale < within ? 1 : 0)
}

function isFiniteValue(value: Numeric): boolean {
  if (Array.isArray(value)) return value.every((row) => row.every(isFiniteValue))
  return Number.isFinite(value.re) && Number.isFinite(value.im)
}

function isDecimal(node: Node): boolean {
  return node.kind === 'number' && node.isDecimal
}

function isInfinite(node: Node): boolean {
  for (const one of within(node)) {
    if (one.kind === 'constant' && one.name === 'infinity') return true
  }
  return false
}

function toUnits(value: number): number {
  return Math.round(value * 10 ** DECIMALS)
}
