import type { Budget } from './budget.ts'
import { NotReadable } from './lexer.ts'
import * as rational from './rational.ts'
import { type Node, negated, whole } from './tree.ts'

const MAX_NESTING = 64

const tokens = /\s*(?:(\d+\.\d*|\.\d+|\d+)|(\*\*|[-+*/^()]))/y

/**
 * Parses arithmetic in plain text: `1/2`, `(3 + 4) * 2^3`. Products without a sign, such as `2 3` and `2(3)`, are not
 * arithmetic.
 * @throws NotReadable, TooLarge, OutOfBudget
 */
export function parseArithmetic(text: string, budget: Budget): Node {
  const read: string[] = []
  tokens.lastIndex = 0
  const trimmed = text.trim()
  while (tokens.lastIndex < trimmed.length) {
    budget.step()
    const match = tokens.exec(trimmed)
    if (!match) throw new NotReadable('no arithmetic')
    read.push(match[1] ?? match[2]!)
  }
  let at = 0
  let nesting = 0

  const sum = (): Node => {
    const parts = [product()]
    while (read[at] === '+' || read[at] === '-') {
      const minus = read[at++] === '-'
      const part = product()
      parts.push(minus ? negated(part) : part)
    }
    return parts.length === 1 ? parts[0]! : { kind: 'sum', parts }
  }

  const product = (): Node => {
    let left = signed()
    while (read[at] === '*' || read[at] === '/') {
      budget.step()
      const isQuotient = read[at++] === '/'
      const right = signed()
      left = isQuotient ? quotient(left, right) : { kind: 'product', parts: [left, right] }
    }
    return left
  }

  const signed = (): Node => {
    let minus = false
    for (; read[at] === '-' || read[at] === '+'; at++) {
      budget.step()
      if (read[at] === '-') minus = !minus
    }
    const value = power()
    return minus ? negated(value) : value
  }

  const power = (): Node => {
    const base = atom()
    if (read[at] !== '^' && read[at] !== '**') return base
    at++
    if (++nesting > MAX_NESTING) throw new rational.TooLarge('powers of powers')
    const exponent = signed()
    nesting--
    return { kind: 'power', base, exponent }
  }

  const atom = (): Node => {
    const token = read[at++]
    if (token === '(') {
      if (++nesting > MAX_NESTING) throw new rational.TooLarge('groups within groups')
      const value = sum()
      nesting--
      if (read[at++] !== ')') throw new NotReadable('an open parenthesis')
      return value
    }
    if (token === undefined || !/\d/.test(token)) throw new NotReadable('a number is missing')
    // Dates such as 2024-01-05 have leading zeros and are not arithmetic.
    if (/^0\d/.test(token)) throw new NotReadable('a leading zero')
    return { kind: 'number', value: rational.decimal(token), isDecimal: token.includes('.') }
  }

  const value = sum()
  if (at < read.length) throw new NotReadable('text after the expression')
  return value
}

function quotient(top: Node, bottom: Node): Node {
  if (top.kind === 'number' && bottom.kind === 'number' && bottom.value.n !== 0n) {
    return {
      kind: 'number',
      value: rational.divide(top.value, bottom.value),
      isDecimal: top.isDecimal || bottom.isDecimal,
    }
  }
  return { kind: 'product', parts: [top, { kind: 'power', base: bottom, exponent: whole(-1) }] }
}
