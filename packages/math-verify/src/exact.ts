import type { Budget } from './budget.ts'
import type { Rational } from './rational.ts'
import * as rational from './rational.ts'
import type { Node } from './tree.ts'

/** Maximum number of factors of a factorial or a binomial coefficient. 1000! takes a millisecond. */
const MAX_FACTORS = 1_000n

/**
 * The value of an expression as a fraction; null if the value is unknown or is not a fraction (x, √2).
 * @throws TooLarge, OutOfBudget
 */
export function exactValue(node: Node, budget: Budget): Rational | null {
  budget.step()
  switch (node.kind) {
    case 'number':
      return node.value
    case 'sum': {
      let total = rational.ZERO
      for (const part of node.parts) {
        const value = exactValue(part, budget)
        if (value === null) return null
        total = rational.add(total, value)
      }
      return total
    }
    case 'product': {
      let total = rational.ONE
      for (const part of node.parts) {
        const value = exactValue(part, budget)
        if (value === null) return null
        total = rational.multiply(total, value)
      }
      return total
    }
    case 'power': {
      const base = exactValue(node.base, budget)
      const exponent = base === null ? null : exactValue(node.exponent, budget)
      if (base === null || exponent === null) return null
      if (base.n === 0n && exponent.n <= 0n) return exponent.n === 0n ? rational.ONE : null
      if (rational.isWhole(exponent)) return rational.power(base, exponent.n)
      // The principal root of a negative number is complex.
      if (base.n < 0n || exponent.d > 64n) return null
      const root = rational.exactRoot(base, Number(exponent.d))
      return root === null ? null : rational.power(root, exponent.n)
    }
    case 'call':
      return exactCall(node, budget)
    default:
      return null
  }
}

function exactCall(node: Extract<Node, { kind: 'call' }>, budget: Budget): Rational | null {
  const known = /^(?:abs|floor|ceiling|factorial|binomial|max|min|gcd|lcm|mod)$/.test(node.name)
  if (!known) return null
  const values: Rational[] = []
  for (const part of node.parts) {
    const value = exactValue(part, budget)
    if (value === null) return null
    values.push(value)
  }
  const [first = rational.ZERO, second = rational.ZERO] = values
  switch (node.name) {
    case 'abs':
      return first.n < 0n ? rational.negate(first) : first
    case 'floor':
      return rational.whole(rational.floor(first))
    case 'ceiling':
      return rational.whole(-rational.floor(rational.negate(first)))
    case 'max':
      return values.reduce((a, b) => (rational.compare(a, b) >= 0 ? a : b))
    case 'min':
      return values.reduce((a, b) => (rational.compare(a, b) <= 0 ? a : b))
    case 'mod': {
      if (second.n === 0n) return null
      const times = rational.whole(rational.floor(rational.divide(first, second)))
      return rational.add(first, rational.negate(rational.multiply(times, second)))
    }
  }
  if (!values.every(rational.isWhole)) return null
  switch (node.name) {
    case 'factorial':
      return first.n < 0n ? null : rational.whole(factorial(first.n))
    case 'binomial':
      return binomial(first.n, second.n)
    case 'gcd':
      return rational.whole(values.map((value) => value.n).reduce(rational.gcd))
    default: {
      const lcm = (a: bigint, b: bigint) =>
        a === 0n || b === 0n ? 0n : (a * b) / rational.gcd(a, b)
      let total = 1n
      for (const value of values) {
        total = rational.ratio(lcm(total, value.n), 1n).n
      }
      return rational.whole(total < 0n ? -total : total)
    }
  }
}

function factorial(n: bigint): bigint {
  if (n > MAX_FACTORS) throw new rational.TooLarge(`${n}!`)
  let total = 1n
  for (let factor = 2n; factor <= n; factor++) total *= factor
  return total
}

function binomial(n: bigint, k: bigint): Rational | null {
  if (k < 0n || n < 0n) return null
  if (k > n) return rational.ZERO
  const count = k < n - k ? k : n - k
  if (count > MAX_FACTORS) throw new rational.TooLarge('a binomial coefficient')
  let total = rational.ONE
  for (let at = 1n; at <= count; at++) {
    total = rational.multiply(total, rational.ratio(n - count + at, at))
  }
  return total
}
