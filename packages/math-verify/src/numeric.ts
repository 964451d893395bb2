import type { Budget } from './budget.ts'
import type { Complex } from './complex.ts'
import * as complex from './complex.ts'
import { toNumber } from './rational.ts'
import type { Node } from './tree.ts'

/** A number, or a matrix as rows of numbers. */
export type Numeric = Complex | Complex[][]

/** Thrown for an expression without a value: a set, an unknown symbol, matrices of different shapes. */
export class NoValue extends Error {
  override readonly name = 'NoValue'
}

/** Maximum number of rows and of columns of a matrix. A product takes n³ steps. */
const MAX_ROWS = 32

/**
 * Evaluates an expression in double precision with the given values of its symbols. The result is not finite where the
 * expression is undefined.
 * @throws NoValue, OutOfBudget
 */
export function evaluate(node: Node, values: ReadonlyMap<string, number>, budget: Budget): Numeric {
  const inner = (part: Node) => evaluate(part, values, budget)
  const scalar = (part: Node): Complex => {
    const value = inner(part)
    if (Array.isArray(value)) throw new NoValue('a matrix instead of a number')
    return value
  }
  budget.step()
  switch (node.kind) {
    case 'number':
      return complex.real(toNumber(node.value))
    case 'constant':
      if (node.name === 'pi') return complex.real(Math.PI)
      if (node.name === 'e') return complex.real(Math.E)
      if (node.name === 'i') return { re: 0, im: 1 }
      return complex.real(Number.POSITIVE_INFINITY)
    case 'symbol': {
      const value = values.get(node.name)
      if (value === undefined) throw new NoValue(node.name)
      return complex.real(value)
    }
    case 'sum':
      return node.parts.map(inner).reduce((a, b) => addAny(a, b))
    case 'product':
      return node.parts.map(inner).reduce((a, b) => multiplyAny(a, b, budget))
    case 'power': {
      const base = inner(node.base)
      const exponent = scalar(node.exponent)
      if (!Array.isArray(base)) return complex.power(base, exponent)
      return matrixPower(base, exponent, budget)
    }
    case 'matrix':
      if (node.rows.length > MAX_ROWS || node.rows[0]!.length > MAX_ROWS) {
        throw new NoValue('a large matrix')
      }
      return node.rows.map((row) => row.map(scalar))
    case 'call': {
      if (node.name === 'det' || node.name === 'transpose') {
        const value = inner(node.parts[0]!)
        if (!Array.isArray(value)) throw new NoValue('a number instead of a matrix')
        return node.name === 'det' ? determinant(value, budget) : transposed(value)
      }
      return call(node.name, node.parts.map(scalar))
    }
    default:
      throw new NoValue(node.kind)
  }
}

function addAny(a: Numeric, b: Numeric): Numeric {
  if (Array.isArray(a) && Array.isArray(b)) {
    if (a.length !== b.length || a[0]!.length !== b[0]!.length) throw new NoValue('two shapes')
    return a.map((row, at) => row.map((cell, column) => complex.add(cell, b[at]![column]!)))
  }
  if (Array.isArray(a) || Array.isArray(b)) throw new NoValue('a number added to a matrix')
  return complex.add(a, b)
}

function multiplyAny(a: Numeric, b: Numeric, budget: Budget): Numeric {
  if (Array.isArray(a) && Array.isArray(b)) {
    if (a[0]!.length !== b.length) throw new NoValue('two shapes')
    return a.map((row) =>
      b[0]!.map((_, column) => {
        budget.step()
        let sum = complex.real(0)
        for (const [at, cell] of row.entries()) {
          sum = complex.add(sum, complex.multiply(cell, b[at]![column]!))
        }
        return sum
      }),
    )
  }
  if (Array.isArray(a))
    return a.map((row) => row.map((cell) => complex.multiply(cell, b as Complex)))
  if (Array.isArray(b)) return b.map((row) => row.map((cell) => complex.multiply(cell, a)))
  return complex.multiply(a, b)
}

function matrixPower(base: Complex[][], exponent: Complex, budget: Budget): Numeric {
  const times = exponent.re
  if (exponent.im !== 0 || !Number.isInteger(times) || times < 1 || times > 64) {
    throw new NoValue('a power of a matrix')
  }
  let result: Numeric = base
  for (let at = 1; at < times; at++) result = multiplyAny(result, base, budget)
  return result
}

function transposed(matrix: Complex[][]): Complex[][] {
  return matrix[0]!.map((_, column) => matrix.map((row) => row[column]!))
}

function determinant(matrix: Complex[][], budget: Budget): Complex {
  const rows = matrix.map((row) => [...row])
  if (rows.length !== rows[0]!.length) throw new NoValue('a matrix that is not square')
  let total = complex.real(1)
  for (let at = 0; at < rows.length; at++) {
    let pivot = at
    for (let row = at + 1; row < rows.length; row++) {
      if (complex.size(rows[row]![at]!) > complex.size(rows[pivot]![at]!)) pivot = row
    }
    if (complex.size(rows[pivot]![at]!) === 0) return complex.real(0)
    if (pivot !== at) {
      ;[rows[pivot], rows[at]] = [rows[at]!, rows[pivot]!]
      total = complex.multiply(total, complex.real(-1))
    }
    total = complex.multiply(total, rows[at]![at]!)
    for (let row = at + 1; row < rows.length; row++) {
      budget.step()
      const factor = complex.divide(rows[row]![at]!, rows[at]![at]!)
      rows[row] = rows[row]!.map((cell, column) =>
        complex.subtract(cell, complex.multiply(factor, rows[at]![column]!)),
      )
    }
  }
  return total
}

const i: Complex = { re: 0, im: 1 }

function call(name: string, parts: Complex[]): Complex {
  const [first, second] = parts as [Complex, Complex | undefined]
  const one = complex.real(1)
  switch (name) {
    case 'sin':
      return complex.sin(first)
    case 'cos':
      return complex.cos(first)
    case 'tan':
      return complex.divide(complex.sin(first), complex.cos(first))
    case 'csc':
      return complex.divide(one, complex.sin(first))
    case 'sec':
      return complex.divide(one, complex.cos(first))
    case 'cot':
      return complex.divide(complex.cos(first), complex.sin(first))
    case 'sinh':
      return complex.multiply(
        complex.multiply(complex.real(-1), i),
        complex.sin(complex.multiply(i, first)),
      )
    case 'cosh':
      return complex.cos(complex.multiply(i, first))
    case 'tanh':
      return complex.divide(call('sinh', parts), call('cosh', parts))
    case 'ln':
      return complex.log(first)
    case 'log':
      // The default base is 10, as in Math-Verify.
      return complex.divide(complex.log(first), complex.log(second ?? complex.real(10)))
    case 'exp':
      return complex.exp(first)
    case 'abs':
      return complex.real(complex.size(first))
  }
  if (parts.some((part) => part.im !== 0)) return complex.real(Number.NaN)
  const x = first.re
  const y = second?.re ?? Number.NaN
  switch (name) {
    case 'arcsin':
      return complex.real(Math.asin(x))
    case 'arccos':
      return complex.real(Math.acos(x))
    case 'arctan':
      return complex.real(Math.atan(x))
    case 'arccsc':
      return complex.real(Math.asin(1 / x))
    case 'arcsec':
      return complex.real(Math.acos(1 / x))
    case 'arccot':
      return complex.real(Math.atan(1 / x))
    case 'arcsinh':
      return complex.real(Math.asinh(x))
    case 'arccosh':
      return complex.real(Math.acosh(x))
    case 'arctanh':
      return complex.real(Math.atanh(x))
    case 'floor':
      return complex.real(Math.floor(x))
    case 'ceiling':
      return complex.real(Math.ceil(x))
    case 'factorial':
      return complex.real(complex.gamma(x + 1))
    case 'binomial':
      return complex.real(complex.gamma(x + 1) / (complex.gamma(y + 1) * complex.gamma(x - y + 1)))
    case 'max':
      return complex.real(Math.max(...parts.map((part) => part.re)))
    case 'min':
      return complex.real(Math.min(...parts.map((part) => part.re)))
    case 'mod':
      return complex.real(x - y * Math.floor(x / y))
    case 'gcd':
    case 'lcm':
      // GCD and LCM are defined only for integers, and `exactValue` computes them.
      return complex.real(Number.NaN)
    default:
      return complex.real(someFunction(name, parts))
  }
}

/**
 * A pseudo-random value between 1 and 3 for an unknown function. Equal arguments (to nine digits) give equal values, so
 * f(1 + 1) equals f(2) and no other value of f.
 */
function someFunction(name: string, parts: Complex[]): number {
  let hash = 2_166_136_261
  const text = `${name}(${parts.map((part) => part.re.toPrecision(9)).join()})`
  for (let at = 0; at < text.length; at++) {
    hash = Math.imul(hash ^ text.charCodeAt(at), 16_777_619)
  }
  return 1 + ((hash >>> 0) / 2 ** 32) * 2
}
