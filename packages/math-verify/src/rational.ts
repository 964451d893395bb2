/**
 * Exact fractions of limited size. A result beyond the limit throws `TooLarge` before it is computed: `9^{9^9}` has 369
 * million digits.
 */

/** A fraction in lowest terms; the denominator is positive. */
export interface Rational {
  readonly n: bigint
  readonly d: bigint
}

/** Thrown for a number or expression beyond the limits. */
export class TooLarge extends Error {
  override readonly name = 'TooLarge'
}

/** Maximum number of bits of a numerator or denominator. 1000! has 8,530 bits, and squaring it takes 20 µs. */
const MAX_BITS = 16_384

/** Maximum number of digits of a number in a text, about `MAX_BITS` bits. */
const MAX_DIGITS = 4_900

export const ZERO: Rational = { n: 0n, d: 1n }
export const ONE: Rational = { n: 1n, d: 1n }

/** n/d in lowest terms. @throws RangeError when d is 0; TooLarge */
export function ratio(n: bigint, d: bigint): Rational {
  if (d === 0n) throw new RangeError('division by zero')
  if (d < 0n) return ratio(-n, -d)
  const divisor = gcd(n < 0n ? -n : n, d)
  const reduced = divisor === 1n ? { n, d } : { n: n / divisor, d: d / divisor }
  if (bits(reduced.n) > MAX_BITS || bits(reduced.d) > MAX_BITS) {
    throw new TooLarge(`a number of more than ${MAX_BITS} bits`)
  }
  return reduced
}

export function whole(value: number | bigint): Rational {
  return { n: BigInt(value), d: 1n }
}

/** Parses decimal text without a sign or separators: `12`, `1.5`, `.5`, `5.`. @throws TooLarge */
export function decimal(text: string): Rational {
  if (text.length > MAX_DIGITS) throw new TooLarge(`a number of ${text.length} digits`)
  const point = text.indexOf('.')
  if (point < 0) return { n: BigInt(text), d: 1n }
  const digits = text.slice(0, point) + text.slice(point + 1)
  return ratio(BigInt(digits === '' ? '0' : digits), 10n ** BigInt(text.length - point - 1))
}

export function add(a: Rational, b: Rational): Rational {
  if (a.d === 1n && b.d === 1n) return ratio(a.n + b.n, 1n)
  return ratio(a.n * b.d + b.n * a.d, a.d * b.d)
}

export function multiply(a: Rational, b: Rational): Rational {
  return ratio(a.n * b.n, a.d * b.d)
}

export function negate(a: Rational): Rational {
  return { n: -a.n, d: a.d }
}

/** @throws RangeError when b is 0; TooLarge */
export function divide(a: Rational, b: Rational): Rational {
  return ratio(a.n * b.d, a.d * b.n)
}

/** Raises to an integer power. @throws TooLarge; RangeError for 0 to a negative power */
export function power(a: Rational, exponent: bigint): Rational {
  if (exponent < 0n) return power(divide(ONE, a), -exponent)
  const size = Math.max(bits(a.n), bits(a.d))
  if (size > 1 && exponent > BigInt(MAX_BITS)) throw new TooLarge(`a power of ${exponent}`)
  if (size > 1 && (size - 1) * Number(exponent) > MAX_BITS) throw new TooLarge('a large power')
  if (size <= 1) {
    // The bases 0, 1 and -1 allow any exponent.
    if (exponent === 0n) return ONE
    return a.n < 0n && exponent % 2n === 0n ? ONE : a
  }
  return { n: a.n ** exponent, d: a.d ** exponent }
}

export function compare(a: Rational, b: Rational): number {
  const left = a.n * b.d
  const right = b.n * a.d
  return left < right ? -1 : left > right ? 1 : 0
}

export function isWhole(a: Rational): boolean {
  return a.d === 1n
}

/** The nearest double; infinite beyond the range of doubles. */
export function toNumber(a: Rational): number {
  const top = Number(a.n)
  const bottom = Number(a.d)
  if (Number.isFinite(top) && Number.isFinite(bottom)) return top / bottom
  // The numerator and the denominator may exceed the range of doubles although their quotient does not.
  const shift = BigInt(Math.max(bits(a.n), bits(a.d)) - 1000)
  const scaled = Number(a.n >> shift) / Number(a.d >> shift)
  return Number.isNaN(scaled) ? Number.POSITIVE_INFINITY : scaled
}

/** Rounds to `decimals` places, half to even. The result is in units of the last place. */
export function roundedUnits(a: Rational, decimals: number): bigint {
  const scaled = a.n * 10n ** BigInt(decimals)
  const down = floorDivide(scaled, a.d)
  const rest = 2n * (scaled - down * a.d)
  if (rest > a.d || (rest === a.d && down % 2n !== 0n)) return down + 1n
  return down
}

export function floor(a: Rational): bigint {
  return floorDivide(a.n, a.d)
}

/** The root if it is a fraction (9/4 → 3/2); null if it is irrational or not real. */
export function exactRoot(a: Rational, degree: number): Rational | null {
  if (a.n < 0n) {
    if (degree % 2 === 0) return null
    const root = exactRoot(negate(a), degree)
    return root === null ? null : negate(root)
  }
  const n = wholeRoot(a.n, degree)
  const d = n === null ? null : wholeRoot(a.d, degree)
  return n === null || d === null ? null : { n, d }
}

export function gcd(a: bigint, b: bigint): bigint {
  let x = a < 0n ? -a : a
  let y = b < 0n ? -b : b
  while (y !== 0n) [x, y] = [y, x % y]
  return x
}

function wholeRoot(value: bigint, degree: number): bigint | null {
  if (value < 2n) return value
  const power = BigInt(degree)
  let guess = 1n << BigInt(Math.ceil(bits(value) / degree))
  // Newton's method from above descends to the floor of the root.
  for (;;) {
    const next = ((power - 1n) * guess + value / guess ** (power - 1n)) / power
    if (next >= guess) break
    guess = next
  }
  return guess ** power === value ? guess : null
}

function floorDivide(a: bigint, b: bigint): bigint {
  const quotient = a / b
  return a % b !== 0n && a < 0n ? quotient - 1n : quotient
}

function bits(value: bigint): number {
  if (value < 0n) return bits(-value)
  if (value < 1n << 52n) return value === 0n ? 0 : Math.floor(Math.log2(Number(value))) + 1
  return (value.toString(16).length - 1) * 4 + 4
}
