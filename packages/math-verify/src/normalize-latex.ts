/**
 * Normalizes an answer's LaTeX before it is parsed. The steps and their order are those of Math-Verify 0.8.0. Answers
 * that cannot be parsed are compared by their normalized text.
 */

const units = new Set(
  (
    'integer point feet foot sue digit pound meal edge student multiple east degree mph kmph ft deg mile monkey prime ratio rd ' +
    'o gm lb tile per dm lt gain ab way west t h men soldier pie bc excess st inches inch noon cent by gal kmh c ' +
    'acre rise th sq mark l toy coin gallon profit minw yr women am pm hr square are rupee rounds cubic cc mtr s ' +
    'ohm number day hour minute min second man woman sec cube mt mp hectare more unit rs kg g month km m cm mm ' +
    'apple liter loss yard pure year increase decrease d less surface litre metre meter'
  ).split(' '),
)
const MAX_UNIT_LENGTH = 12

const MAX_BOXES = 128

const separator = /and|or|,|;/

/**
 * The contents of the boxes of a text, joined by commas, or the text itself if it has none. `all` takes every box.
 * `last` takes the last box, and those before it that belong to the same answer: less than 10 characters apart, or
 * less than 70 with a separator between them and different contents.
 */
export function boxedContents(text: string, mode: 'all' | 'last'): string {
  const found: string[] = []
  let end = text.length
  let nextStart = -1
  let boxed = text.lastIndexOf('\\boxed')
  let fbox = text.lastIndexOf('\\fbox')
  for (;;) {
    const start = Math.max(boxed, fbox)
    if (start < 0 || found.length === MAX_BOXES) break
    let open = start + (text.startsWith('\\boxed', start) ? 6 : 5)
    while (open < end && isSpace(text[open]!)) open++
    if (open >= end) break
    const close = text[open] === '{' ? closingBrace(text, open, end) : -1
    if (close < 0) {
      // The last box may be unclosed; its content reaches to the end.
      if (found.length === 0) found.push(text.slice(open))
      break
    }
    const content = text.slice(open + 1, close).trim()
    if (mode === 'last' && nextStart >= 0) {
      const between = text.slice(close + 1, nextStart)
      const isPart =
        between.length < 10 ||
        (between.length < 70 && content !== found.at(-1) && separator.test(between))
      if (!isPart) break
    }
    found.push(content)
    nextStart = start
    end = start
    // Search again only for the command just found, so a text without the other command is scanned for it only once.
    if (start === boxed) boxed = start === 0 ? -1 : text.lastIndexOf('\\boxed', start - 1)
    else fbox = start === 0 ? -1 : text.lastIndexOf('\\fbox', start - 1)
  }
  return found.length === 0 ? text : found.reverse().join(',')
}

function closingBrace(text: string, open: number, end: number): number {
  let depth = 0
  for (let at = open; at < end; at++) {
    const code = text.charCodeAt(at)
    if (code === 0x7b) depth++
    else if (code === 0x7d && --depth === 0) return at
  }
  return -1
}

const replacements: readonly (readonly [pattern: RegExp, by: string])[] = [
  [/\\mathrm\{T\}/g, 'T'],
  [/\\mathrm\{th\}|\\!\s{0,9}|\\text\s?\{\s?\}|\\?\$|(?<!\\)["]|\\displaystyle/g, ''],
  [/\\math(?:rm|it|bf)(?![a-z])/g, '\\text'],
  [/\\text(?:normal|bf|it|rm)(?![a-z])/g, '\\text'],
  [/\\[dtc]frac/g, '\\frac'],
  [/\s\./g, ' 0.'],
  [/\{\./g, '{0.'],
  [/~=/g, '\\approx'],
  [/\s{0,9}\{\s?,\s?\}/g, ','],
  [/,?\s?\\text\{\s?(?:and|or)\s?\}/g, ','],
  [/(?<![a-zA-Z])(?:,\s?)?(?:and|or)(?![a-zA-Z])/g, ','],
  [/(?<!\\)\\\s/g, ' '],
  [/(?<!\\)infinity/g, '\\infty'],
  [/,?\\ldots/g, ' '],
  [/\\text\{\s?(?:percentage|percent|pct)\s?\}/g, '\\%'],
  [/\s?(?:percentage|percent|pct)/g, '\\%'],
  [/(?<!\\)inf(?!inity|ty)/g, '\\infty'],
  [/ sqrt/g, '\\sqrt'],
  [/[\n\t]/g, ' '],
]

/** Maximum length of an answer, in characters. Matching the patterns takes slightly more than linear time. */
const MAX_LATEX_LENGTH = 4_000

/** Normalizes the content of a LaTeX environment, or a text with a box; null if it is too long. */
export function normalizeLatex(latex: string, boxes: 'all' | 'last'): string | null {
  let text = boxedContents(latex, boxes)
  if (text.length > MAX_LATEX_LENGTH) return null
  for (const [pattern, by] of replacements) text = text.replace(pattern, by)
  // JSON may double a command's backslash. In a matrix two backslashes end a row.
  if (!text.includes('matrix') && !text.includes('{array}')) {
    text = text.replace(/\\\\(?=[a-zA-Z])/g, '\\')
  }
  text = withoutUnits(text)
  if (text.startsWith('.')) text = `0${text}`
  if (text === '0.5') text = '\\frac{1}{2}'
  text = text
    .replace(/\^\s?\(([^()]{0,500})\)/g, '^{$1}')
    .replace(/(?<!\\)sqrt\s?\(([^()]{0,500})\)/g, '\\sqrt{$1}')
    .replace(/\\frac\s?(\d)\s?(\d+)/g, '\\frac{$1}{$2}')
  const slashed = /^(0|-?[1-9]\d*)\/(0|-?[1-9]\d*)$/.exec(text)
  if (slashed) text = `\\frac{${slashed[1]}}{${slashed[2]}}`
  return text.trim()
}

/** Removes units: `15\mbox{ cm}^2` → `15`, `20 cm` → `20`. A text that consists only of a unit is unchanged. */
function withoutUnits(text: string): string {
  let result = text
  const unit = /(?:\^\d|\{\^\d\}|\^\{\d\})?$/.exec(result)!
  if (result[unit.index - 1] === '}') {
    const start = firstOf(result, ['\\text{', '\\mbox{'])
    const rest = start < 0 ? '' : result.slice(0, start).trim()
    if (rest !== '') result = rest
  }
  for (let times = 0; times < 2; times++) result = withoutUnitWord(result)
  return result
}

function withoutUnitWord(text: string): string {
  const end = text.trimEnd().length
  let start = end
  while (start > 0 && end - start <= MAX_UNIT_LENGTH && /[a-zA-Z]/.test(text[start - 1]!)) start--
  const word = text.slice(start, end)
  const isUnit = [word, word.replace(/s$/, ''), word.replace(/es$/, '')].some((one) =>
    units.has(one),
  )
  if (!isUnit || start === 0) return text
  // A word directly after another character may be part of a command.
  if (!/[\d}\s]/.test(text[start - 1]!)) return text
  const rest = text.slice(0, start).trimEnd()
  return rest === '' ? text : rest
}

function firstOf(text: string, parts: readonly string[]): number {
  let first = -1
  for (const part of parts) {
    const at = text.indexOf(part)
    if (at >= 0 && (first < 0 || at < first)) first = at
  }
  return first
}

function isSpace(char: string): boolean {
  return char === ' ' || char === '\n' || char === '\t' || char === '\r'
}
