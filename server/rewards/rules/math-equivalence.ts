/**
 * Equality of MATH answers after Hendrycks et al.'s normalization, which verl uses. Spaces, units and variants such as
 * `\left`, `\dfrac` and `\frac12` make no difference. Values are not compared: 1/2 and 0.5 are equal only by a special
 * case. Verdicts depend on the order of the steps.
 */
import { firstCodePoint, isAtMostCodePoints, replaceLiteral } from './python-text.ts'

/** The first replacements, made in this order. `\\` becomes `\` before commands are replaced. */
const replacements: readonly (readonly [from: string, to: string])[] = [
  ['\n', ''],
  ['\\!', ''],
  ['\\\\', '\\'],
  ['tfrac', 'frac'],
  ['dfrac', 'frac'],
  ['\\left', ''],
  ['\\right', ''],
  ['^{\\circ}', ''],
  ['^\\circ', ''],
  ['\\$', ''],
]

/** Replacements after the removal of units. A point without a digit before it gets a zero. */
const laterReplacements: readonly (readonly [from: string, to: string])[] = [
  ['\\\\%', ''],
  ['\\%', ''],
  [' .', ' 0.'],
  ['{.', '{0.'],
]

/** Thrown for a text that cannot be normalized; the two texts are then compared unchanged. */
class NotNormalizable extends Error {}

/** Returns the compared form of an answer, or null if it cannot be normalized. */
export function mathForm(answer: string): string | null {
  try {
    return normalizeMath(answer)
  } catch (error) {
    if (error instanceof NotNormalizable) return null
    throw error
  }
}

/** Whether two MATH answers are equal by verl's `is_equiv`. */
export function isMathEquivalent(a: string, b: string): boolean {
  try {
    return normalizeMath(a) === normalizeMath(b)
  } catch (error) {
    if (error instanceof NotNormalizable) return a === b
    throw error
  }
}

/**
 * verl's `strip_string`.
 * @throws where verl's throws: two `\text{ ` in one text, a `\sqrt` or `\frac` at the end of the text
 */
export function normalizeMath(answer: string): string {
  let text = answer
  for (const [from, to] of replacements) text = replaceLiteral(text, from, to)
  text = withoutUnit(text)
  for (const [from, to] of laterReplacements) text = replaceLiteral(text, from, to)
  if (text === '') return ''
  if (text.startsWith('.')) text = `0${text}`
  text = withoutShortLeftSide(text)
  text = bracedRoots(text)
  text = replaceLiteral(text, ' ', '')
  text = bracedFractions(text)
  if (text === '0.5') return '\\frac{1}{2}'
  return slashAsFraction(text)
}

/** `10\text{ cm}` → `10`: a `\text` that begins with a space is a unit. */
function withoutUnit(text: string): string {
  const parts = text.split('\\text{ ')
  if (parts.length > 2) throw new NotNormalizable()
  return parts[0]!
}

/** `k=7` → `7`, if there is one `=` and at most two characters before it. */
function withoutShortLeftSide(text: string): string {
  const equals = text.indexOf('=')
  if (equals < 0 || text.indexOf('=', equals + 1) >= 0) return text
  return isAtMostCodePoints(text.slice(0, equals), 2) ? text.slice(equals + 1) : text
}

/** `\sqrt3x` → `\sqrt{3}x` */
function bracedRoots(text: string): string {
  const [before, ...pieces] = text.split('\\sqrt')
  if (pieces.length === 0) return text
  const fixed = [before!]
  for (const piece of pieces) {
    if (piece === '') throw new NotNormalizable()
    if (piece.startsWith('{')) {
      fixed.push('\\sqrt', piece)
    } else {
      const radicand = firstCodePoint(piece)
      fixed.push('\\sqrt{', radicand, '}', piece.slice(radicand.length))
    }
  }
  return fixed.join('')
}

/** `\frac12` → `\frac{1}{2}`, `\frac1{72}` → `\frac{1}{72}`; `\frac{72}1` stays. */
function bracedFractions(text: string): string {
  const [before, ...pieces] = text.split('\\frac')
  if (pieces.length === 0) return text
  const fixed = [before!]
  for (const piece of pieces) {
    if (piece === '') throw new NotNormalizable()
    if (piece.startsWith('{')) {
      fixed.push('\\frac', piece)
      continue
    }
    const numerator = firstCodePoint(piece)
    const rest = piece.slice(numerator.length)
    if (rest === '') return text
    fixed.push('\\frac{', numerator, '}')
    if (rest.startsWith('{')) {
      fixed.push(rest)
    } else {
      const denominator = firstCodePoint(rest)
      fixed.push('{', denominator, '}', rest.slice(denominator.length))
    }
  }
  return fixed.join('')
}

/** An integer as Python prints it: no leading zero or plus, no minus zero. */
const canonicalInteger = /^(?:0|-?[1-9][0-9]*)$/

/** Python refuses to read longer integers (`sys.int_info.default_max_str_digits`). */
const MAX_INTEGER_DIGITS = 4300

/** `3/4` → `\frac{3}{4}`, if the text is only one slash between two integers. */
function slashAsFraction(text: string): string {
  const slash = text.indexOf('/')
  if (slash < 0) return text
  const numerator = text.slice(0, slash)
  const denominator = text.slice(slash + 1)
  if (!isReadableInteger(numerator) || !isReadableInteger(denominator)) return text
  return `\\frac{${numerator}}{${denominator}}`
}

function isReadableInteger(text: string): boolean {
  const digits = text.startsWith('-') ? text.length - 1 : text.length
  return digits <= MAX_INTEGER_DIGITS && canonicalInteger.test(text)
}
