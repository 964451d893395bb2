/**
 * The normalization of final answers that DAPO took from Minerva (Lewkowycz et al., appendix D). The ground truth is
 * normalized at full length, so a scan replaces verl's bracket patterns: regular expressions would take quadratic time
 * on a text full of `\text{` without `}`.
 */
import { isDigits, replaceLiteral, strip } from './python-text.ts'

/**
 * Replacements, applied in this order: a replacement in the middle deletes spaces, which affects the later
 * replacements.
 */
const replacements: readonly (readonly [from: string, to: string])[] = [
  ['an ', ''],
  ['a ', ''],
  ['.$', '$'],
  ['\\$', ''],
  ['\\ ', ''],
  [' ', ''],
  ['mbox', 'text'],
  [',\\text{and}', ','],
  ['\\text{and}', ','],
  ['\\text{m}', '\\text{}'],
]

/** Texts that are deleted one after the other wherever they occur, also within words (`issue` → `is`). */
const deletions: readonly string[] = [
  ...['square', 'ways', 'integers', 'dollars', 'mph', 'inches', 'hours', 'km', 'units', '\\ldots'],
  ...['sue', 'points', 'feet', 'minutes', 'digits', 'cents', 'degrees', 'cm', 'gm', 'pounds'],
  ...['meters', 'meals', 'edges', 'students', 'childrentickets', 'multiples', '\\text{s}'],
  ...['\\text{.}', '\\text{\ns}', '\\text{}^2', '\\text{}^3', '\\text{\n}', '\\text{}'],
  ...['\\mathrm{th}', '^\\circ', '^{\\circ}', '\\;', ',\\!', '{,}', '"', '\\dots'],
]

const bareFraction = /frac([^{])([^\n])/gu
const bareRoot = /sqrt([^{])/gu

/** verl's `normalize_final_answer`. */
export function normalizeFinalAnswer(answer: string): string {
  let text = answer.slice(answer.lastIndexOf('=') + 1)
  for (const [from, to] of replacements) text = replaceLiteral(text, from, to)
  for (const part of deletions) text = replaceLiteral(text, part, '')
  text = text.includes('\n') ? text.split('\n').map(unwrapLine).join('\n') : unwrapLine(text)
  text = text.replace(bareFraction, 'frac{$1}{$2}').replace(bareRoot, 'sqrt{$1}')
  text = replaceLiteral(text, '$', '')
  const withoutCommas = replaceLiteral(text, ',', '')
  return strip(isDigits(withoutCommas) ? withoutCommas : text)
}

/**
 * Unwraps `$…$`, `\text{…}` and `\boxed{…}` in a line. verl's patterns do not cross line breaks, so each line is
 * separate.
 */
function unwrapLine(line: string): string {
  let text = firstInDollars(line)
  text = unwrapShortest(text, '\\text{')
  text = unwrapShortest(text, '\\textbf{')
  text = unwrapShortest(text, '\\overline{')
  return unwrapLongest(text, '\\boxed{')
}

/**
 * `so $3$ or $4$` → `$3$`: if a line has at least two dollar signs, only the text from the first to the second is
 * kept.
 */
function firstInDollars(line: string): string {
  const first = line.indexOf('$')
  const second = first < 0 ? -1 : line.indexOf('$', first + 1)
  return second < 0 ? line : line.slice(first, second + 1)
}

/** Every `\text{X}` → `X`. X ends at the next `}`, even if X contains a `{`. */
function unwrapShortest(line: string, opening: string): string {
  let start = line.indexOf(opening)
  if (start < 0) return line
  const parts: string[] = []
  let from = 0
  while (start >= 0) {
    const content = start + opening.length
    const end = line.indexOf('}', content)
    if (end < 0) break
    parts.push(line.slice(from, start), line.slice(content, end))
    from = end + 1
    start = line.indexOf(opening, from)
  }
  parts.push(line.slice(from))
  return parts.join('')
}

/** The first `\boxed{X}` → `X`, up to the last `}` of the line. */
function unwrapLongest(line: string, opening: string): string {
  const start = line.indexOf(opening)
  const end = start < 0 ? -1 : line.lastIndexOf('}')
  const content = start + opening.length
  return end < content
    ? line
    : line.slice(0, start) + line.slice(content, end) + line.slice(end + 1)
}
