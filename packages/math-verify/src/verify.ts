import { parseArithmetic } from './arithmetic.ts'
import { Budget } from './budget.ts'
import { type AnswerKind, type Candidate, candidateGroups, MAX_CANDIDATES } from './candidates.ts'
import type { EnvironmentRun } from './environments.ts'
import { answersEqual, type VerifyOptions } from './equal.ts'
import { MAX_ANSWER_LENGTH, parseLatex } from './latex-parser.ts'
import { NotReadable } from './lexer.ts'
import { normalizeLatex } from './normalize-latex.ts'
import * as rational from './rational.ts'
import type { Node } from './tree.ts'

/** Number of characters at the end of a text that are searched for an answer, about 16,000 tokens. */
const MAX_TEXT_LENGTH = 65_536

/** The answer found in a text. */
export interface ParsedAnswer {
  /** The answer's text, normalized; null if none was found. */
  text: string | null
  /** The parsed answer; null if no candidate is readable. */
  value: Node | null
  /** The text of the first candidate. Equal texts are equal answers even if they cannot be parsed. */
  fallback: string | null
  /** Whether a candidate exceeded the limits of the parser. */
  isTooLarge: boolean
}

export interface Verdict {
  correct: boolean
  /** The answer found in the response. */
  extracted: string | null
  reason: VerdictReason
}

/**
 * The result of the comparison. `same_text`: the texts are equal, although the parsed answers differ or one of them
 * cannot be parsed. `no_answer`: the response has no answer. `not_readable`: the response's answer cannot be parsed.
 * `too_large`: an answer is beyond the limits and was not compared.
 */
export type VerdictReason =
  | 'equal'
  | 'different'
  | 'same_text'
  | 'no_answer'
  | 'not_readable'
  | 'too_large'

/**
 * Finds the answer of a text and parses it.
 * @param kinds notations in which the answer may be written; both by default
 * @throws OutOfBudget
 */
export function parse(
  text: string,
  kinds: readonly AnswerKind[] = ['plain', 'latex'],
  budget: Budget = new Budget(),
): ParsedAnswer {
  const end = text.length > MAX_TEXT_LENGTH ? text.slice(-MAX_TEXT_LENGTH) : text
  const result: ParsedAnswer = { text: null, value: null, fallback: null, isTooLarge: false }
  let tried = 0
  for (const group of candidateGroups(end, kinds)) {
    for (const candidate of group) {
      budget.check()
      if (++tried > MAX_CANDIDATES) return result
      const read = readCandidate(end, candidate, budget, result)
      if (read.text !== '') result.fallback ??= read.text
      if (read.value !== null) return { ...result, text: read.text, value: read.value }
    }
  }
  return { ...result, text: result.fallback }
}

interface Read {
  text: string
  value: Node | null
}

function readCandidate(
  text: string,
  candidate: Candidate,
  budget: Budget,
  result: ParsedAnswer,
): Read {
  switch (candidate.kind) {
    case 'latex':
      return readRun(text, candidate.run, budget, result)
    case 'box':
      return readLatex(text.slice(candidate.start, candidate.end), 'last', false, budget, result)
    default: {
      const { number, arithmetic, isPercent } = candidate.match
      if (arithmetic !== null) {
        if (arithmetic.length > MAX_ANSWER_LENGTH) return { text: '', value: null }
        const value = attempt(() => parseArithmetic(arithmetic, budget), result)
        return { text: arithmetic.trim(), value }
      }
      const digits = number!
      const value = attempt(() => numberFrom(digits, isPercent), result)
      return { text: digits, value }
    }
  }
}

function numberFrom(digits: string, isPercent: boolean): Node {
  const isNegative = digits.startsWith('-')
  const size = rational.decimal(isNegative ? digits.slice(1) : digits)
  const value = isNegative ? rational.negate(size) : size
  return {
    kind: 'number',
    value: isPercent ? rational.divide(value, rational.whole(100)) : value,
    isDecimal: digits.includes('.'),
  }
}

function readRun(text: string, run: EnvironmentRun, budget: Budget, result: ParsedAnswer): Read {
  const reads = run.parts.map((part) =>
    readLatex(text.slice(part.from, part.to), 'all', part.isPercent, budget, result),
  )
  const [first] = reads as [Read]
  if (reads.length === 1 || reads.some((read) => read.value === null)) return first
  const parts = reads.flatMap(({ value }) => (value!.kind === 'set' ? value!.parts : [value!]))
  return { text: reads.map((read) => read.text).join(' and '), value: { kind: 'set', parts } }
}

function readLatex(
  latex: string,
  boxes: 'all' | 'last',
  isPercent: boolean,
  budget: Budget,
  result: ParsedAnswer,
): Read {
  const text = normalizeLatex(latex, boxes)
  if (text === null) {
    result.isTooLarge = true
    return { text: '', value: null }
  }
  const value = attempt(() => {
    try {
      return parseLatex(text, budget)
    } catch (error) {
      const last = error instanceof NotReadable ? lastSide(text) : null
      if (last === null) throw error
      return parseLatex(last, budget)
    }
  }, result)
  if (value === null || !isPercent) return { text, value }
  const hundredth: Node = { kind: 'number', value: rational.ratio(1n, 100n), isDecimal: false }
  if (value.kind === 'number') {
    const share = rational.divide(value.value, rational.whole(100))
    return { text, value: { ...value, value: share } }
  }
  return { text, value: { kind: 'product', parts: [value, hundredth] } }
}

/** The last side of `a = b = 5`, used if another side is not readable; null for fewer than two equals signs. */
function lastSide(latex: string): string | null {
  if (latex.includes(',') || latex.includes(';')) return null
  const sides = latex.split(/(?<![\\<!>])=/)
  return sides.length > 2 ? sides.at(-1)! : null
}

function attempt(read: () => Node, result: ParsedAnswer): Node | null {
  try {
    return read()
  } catch (error) {
    if (error instanceof NotReadable) return null
    if (error instanceof rational.TooLarge) {
      result.isTooLarge = true
      return null
    }
    throw error
  }
}

/**
 * Compares an answer with the ground truth.
 * @throws OutOfBudget
 */
export function verify(
  gold: ParsedAnswer,
  given: ParsedAnswer,
  budget: Budget = new Budget(),
  options: VerifyOptions = {},
): Verdict {
  const extracted = given.text
  if (given.value === null && given.fallback === null) {
    const reason = given.isTooLarge ? 'too_large' : 'no_answer'
    return { correct: false, extracted, reason }
  }
  let isTooLarge = given.value === null && given.isTooLarge
  if (gold.value !== null && given.value !== null) {
    try {
      if (answersEqual(gold.value, given.value, budget, options)) {
        return { correct: true, extracted, reason: 'equal' }
      }
    } catch (error) {
      if (!(error instanceof rational.TooLarge)) throw error
      isTooLarge = true
    }
  }
  if (gold.fallback !== null && gold.fallback !== '' && gold.fallback === given.fallback) {
    return { correct: true, extracted, reason: 'same_text' }
  }
  if (isTooLarge) return { correct: false, extracted, reason: 'too_large' }
  return { correct: false, extracted, reason: given.value === null ? 'not_readable' : 'different' }
}
