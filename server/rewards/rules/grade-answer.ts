import {
  answersEqual,
  type Budget,
  MAX_ANSWER_LENGTH,
  type Node,
  NotReadable,
  normalizeLatex,
  parseLatex,
  TooLarge,
} from '../../../packages/math-verify/src/index.ts'
import { isMathEquivalent } from './math-equivalence.ts'

/**
 * PRM800K's grading of a short answer, which verl's geo3k (through mathruler) and numina rules share. An answer
 * is correct if it is the same text without units, spaces and LaTeX variants. Otherwise it is compared by value, with
 * limits on the notation: tuples need the same brackets and the same number of parts, two fractions need the same terms,
 * and an integer matches only an integer. The comparison of `math_verify` replaces verl's SymPy.
 */

const units =
  /(?:degree|cm|centimeter|meter|mile|second|minute|hour|day|week|month|year|foot|feet|inch|yard|liter)(?:es)?s? {0,20}(?:\^[0-9]+)?/g

const brackets = '()[]'

/** Maximum number of unknown letters, as in verl; expressions with more are compared only as text. */
const MAX_LETTERS = 2

/**
 * Whether an answer is correct. Both texts are LaTeX or plain text.
 * @throws OutOfBudget
 */
export function gradeAnswer(given: string, truth: string, budget: Budget): boolean {
  // Real answers are never that long, and the following steps take a little more than linear time.
  if (given.length > MAX_ANSWER_LENGTH || truth.length > MAX_ANSWER_LENGTH) return given === truth
  if (isMathEquivalent(withoutText(given.trim()), withoutText(truth.trim()))) return true
  const givenText = plainText(given)
  const truthText = plainText(truth)
  if (givenText === truthText) return true
  if (givenText === '') return false
  const givenParts = tupleParts(givenText)
  const truthParts = tupleParts(truthText)
  if (truthParts.length !== givenParts.length) return false
  const hasOtherBrackets = truthText[0] !== givenText[0] || truthText.at(-1) !== givenText.at(-1)
  if (truthParts.length > 1 && hasOtherBrackets) return false
  let differs = false
  for (const [at, part] of truthParts.entries()) {
    const other = givenParts[at]!
    if (isFraction(part) && isFraction(other)) {
      if (part !== other) return false
    } else if (isInteger(part) !== isInteger(other)) {
      return false
    } else if (part !== other) {
      if (!isComparable(`(${part})-(${other})`)) return false
      differs = true
    }
  }
  return !differs || equalByValue(given, truth, budget)
}

/**
 * Returns the normalized texts that `gradeAnswer` compares, for display. Texts that are too long to be normalized stay
 * unchanged.
 */
export function gradedForms(
  given: string | null,
  truth: string,
): { step: string; response: string | null; groundTruth: string | null }[] {
  const isLong = (given?.length ?? 0) > MAX_ANSWER_LENGTH || truth.length > MAX_ANSWER_LENGTH
  return [
    { step: 'unchanged', response: given, groundTruth: truth },
    ...(isLong
      ? []
      : [
          {
            step: 'units, spaces and LaTeX variants removed',
            response: given === null ? null : plainText(given),
            groundTruth: plainText(truth),
          },
        ]),
  ]
}

export function lastBoxedContent(text: string): string | null {
  const start = text.lastIndexOf('\\boxed{')
  if (start < 0) return null
  let depth = 0
  for (let at = start + 7; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (code === 0x7b) depth++
    else if (code === 0x7d && --depth < 0) return text.slice(start + 7, at).trim()
  }
  return null
}

/**
 * Parses an answer. Returns null if the answer cannot be parsed.
 * @throws OutOfBudget
 */
export function readAnswer(answer: string, budget: Budget): Node | null {
  const latex = normalizeLatex(answer, 'all')
  if (latex === null) return null
  try {
    return parseLatex(latex, budget)
  } catch (error) {
    if (error instanceof NotReadable || error instanceof TooLarge) return null
    throw error
  }
}

/**
 * Compares as `math_verify` does.
 * @throws OutOfBudget
 */
export function equalByValue(given: string, truth: string, budget: Budget): boolean {
  const gold = readAnswer(truth, budget)
  const answer = gold === null ? null : readAnswer(given, budget)
  if (gold === null || answer === null) return false
  try {
    return answersEqual(gold, answer, budget)
  } catch (error) {
    if (error instanceof TooLarge) return false
    throw error
  }
}

function withoutText(answer: string): string {
  return answer.startsWith('\\text{') && answer.endsWith('}') && answer.length > 7
    ? answer.slice(6, -1).trim()
    : answer
}

/** Returns an answer without units, spaces, grouping commas and LaTeX variants, as verl's `_normalize` does. */
function plainText(answer: string): string {
  let text = withoutText(answer)
    .replaceAll('\\%', '%')
    .replaceAll('\\$', '$')
    .replace(/[$%]/g, '')
    .replace(/ (?:or|and) /g, ' , ')
    .replaceAll('million', '*10^6')
    .replaceAll('billion', '*10^9')
    .replaceAll('trillion', '*10^12')
    .replace(units, '')
    .replace(/\^ {0,20}\\circ/g, '')
  if (text.startsWith('{') && text.endsWith('}')) text = text.slice(1, -1)
  text = wholeText(text.replace(/,\\! {0,20}/g, ''))
  if (text.includes('\\')) text = latexAsText(text)
  text = text
    .replace(/-\s{1,20}/g, '-')
    .replace(/([0-9]) +([0-9])/g, '$1+$2')
    .replace(/[ {}]/g, '')
    .toLowerCase()
  return wholeText(withoutGroupCommas(text))
}

function latexAsText(latex: string): string {
  return latex
    .replace(/\\[dt]frac/g, '\\frac')
    .replace(/(\d)\\frac/g, '$1 \\frac')
    .replace(/\\frac\s?([0-9a-z])\s?([0-9a-z])/g, '$1/$2')
    .replace(/\\frac\s?\{([^{}]{0,200})\}\s?\{([^{}]{0,200})\}/g, '$1/$2')
    .replace(/\\sqrt\s?\{([^{}]{0,200})\}/g, 'sqrt($1)')
    .replace(/\\(?:left|right|,|;|!|displaystyle)/g, '')
    .replace(/\\(?:cdot|times)(?![a-z])/g, '*')
    .replace(/\\cup(?![a-z])/g, 'U')
    .replace(/\\infty/g, 'inf')
    .replace(/\\(?:text|mathrm|mathbf|textbf)\s?\{([^{}]{0,200})\}/g, '$1')
    .replace(/\\([a-zA-Z]+)/g, '$1')
    .trim()
}

/** `42.0` → `42`; a text that is not a whole number stays unchanged. */
function wholeText(text: string): string {
  if (!/^-?\d{1,15}(?:\.\d{0,300})?$/.test(text)) return text
  const value = Number(text)
  return Math.abs(value - Math.round(value)) <= 1e-7 ? String(Math.round(value)) : text
}

function withoutGroupCommas(text: string): string {
  return text.replace(/(\d),(?=\d{3}(?!\d))/g, '$1')
}

function tupleParts(text: string): string[] {
  const isTuple =
    text.length > 2 &&
    brackets.includes(text[0]!) &&
    brackets.includes(text.at(-1)!) &&
    ![...text.slice(1, -1)].some((char) => brackets.includes(char))
  return isTuple ? text.slice(1, -1).split(',') : [text]
}

function isFraction(text: string): boolean {
  return /^-?[0-9]+.?\/0*[1-9][0-9]*.?$/.test(text)
}

function isInteger(text: string): boolean {
  return /^-?\d+$/.test(wholeText(withoutGroupCommas(text)))
}

function isComparable(text: string): boolean {
  const letters = new Set(text.replaceAll('sqrt', '').replaceAll('frac', '').match(/\p{L}/gu))
  return letters.size <= MAX_LETTERS && !/\^[{(]|\^[0-9]+\^|\^[0-9][0-9]+/.test(text)
}
