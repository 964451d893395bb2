import { nextFence } from './rollout-blocks.ts'

/** A formula of a text. `body` is the formula without its delimiters. */
export interface Formula {
  start: number
  end: number
  body: string
  isDisplay: boolean
}

/**
 * A text in which private-use characters replace the characters of formulas, and literal signs such as `*` in `2*3*4`,
 * so that the Markdown parser does not read them as markup. Positions stay the same.
 */
export interface MarkdownSource {
  text: string
  formulas: Formula[]
  /** The character that replaces each character of a formula. */
  formulaChar: string
  /** Maps private-use characters to the signs that they replace. */
  literals: ReadonlyMap<string, string>
}

/** Length of the longest formula that is typeset, and of the longest inline formula. */
const MAX_FORMULA_CHARS = 4_000
const MAX_INLINE_CHARS = 1_000

const ENVIRONMENTS =
  'align|aligned|alignat|equation|gather|gathered|multline|cases|array|matrix|pmatrix|bmatrix|vmatrix'

/**
 * Matches, in order of precedence: fence, inline code, URL, escape, formula, `####`, asterisks, NUL. URLs and code are
 * skipped.
 */
const TOKEN = new RegExp(
  [
    '^ {0,3}(`{3,}|~{3,})([^\\n]*)$',
    '(`+)',
    '(\\]\\([^)\\s]*|https?:\\/\\/[^\\s)>\\]]+)',
    `\\\\(?:([([])|begin\\{((?:${ENVIRONMENTS})\\*?)\\}|(boxed)\\{|([^a-zA-Z\\n]))`,
    '(\\$\\$?)',
    '^ {0,3}(####)[ \\t]*[-+$€£]?\\d[\\d.,]*[ \\t]*%?[ \\t]*$',
    '(\\*{1,2})',
    '(\\u0000)',
  ].join('|'),
  'gm',
)

/**
 * Prepares a text for Markdown. Recognizes formulas in `$`, `$$`, `\(…\)`, `\[…\]`, environments and a bare `\boxed`.
 */
export function markdownSource(source: string): MarkdownSource {
  const [formulaChar, star, hash, nul] = privateChars(source) as [string, string, string, string]
  const formulas: Formula[] = []
  const parts: string[] = []
  let from = 0
  const replace = (start: number, end: number, by: string) => {
    parts.push(source.slice(from, start), by)
    from = end
  }
  let fence: string | null = null
  const ends = new NextOf(source)
  TOKEN.lastIndex = 0
  for (let match = TOKEN.exec(source); match !== null; match = TOKEN.exec(source)) {
    const at = match.index
    const [
      whole,
      marker,
      info,
      ticks,
      url,
      bracket,
      environment,
      boxed,
      ,
      dollars,
      head,
      stars,
      zero,
    ] = match
    if (zero !== undefined) replace(at, at + 1, nul)
    else if (marker !== undefined) fence = nextFence(fence, marker, info ?? '')
    else if (fence !== null || url !== undefined) continue
    else if (ticks !== undefined) {
      const close = ends.ticks(ticks, at + ticks.length)
      if (close >= 0) TOKEN.lastIndex = close
    } else if (head !== undefined) {
      const first = source.indexOf('#', at)
      replace(first, first + 1, hash)
    } else if (stars !== undefined) {
      if (isLiteralStar(source, at, stars))
        replace(at, at + stars.length, star.repeat(stars.length))
    } else {
      const formula =
        dollars !== undefined
          ? dollarFormula(source, at, dollars, ends)
          : bracket !== undefined
            ? bracketFormula(source, at, bracket, ends)
            : environment !== undefined
              ? environmentFormula(source, at, environment, ends)
              : boxed !== undefined
                ? boxedFormula(source, at, whole.length)
                : null
      if (formula === null) continue
      formulas.push(formula)
      replace(formula.start, formula.end, formulaChar.repeat(formula.end - formula.start))
      TOKEN.lastIndex = formula.end
    }
  }
  parts.push(source.slice(from))
  const literals = new Map([
    [star, '*'],
    [hash, '#'],
    [nul, '\u0000'],
  ])
  return { text: parts.join(''), formulas, formulaChar, literals }
}

/** Finds end delimiters. A found position is reused until the search has passed it. */
class NextOf {
  readonly #text: string
  readonly #known = new Map<string, number>()

  constructor(text: string) {
    this.#text = text
  }

  of(needle: string, from: number): number {
    const known = this.#known.get(needle)
    if (known !== undefined && (known === -1 || known >= from)) return known
    const found = this.#text.indexOf(needle, from)
    this.#known.set(needle, found)
    return found
  }

  ticks(run: string, from: number): number {
    for (let at = this.of(run, from); at >= 0; ) {
      let end = at + run.length
      if (this.#text[end] !== '`' && this.#text[at - 1] !== '`') return end
      while (this.#text[end] === '`') end++
      at = this.of(run, end)
    }
    return -1
  }

  /** The next end delimiter within the paragraph and the limit, or -1. */
  within(needle: string, from: number, maxChars: number): number {
    const at = this.of(needle, from)
    if (at < 0 || at - from > maxChars) return -1
    const blank = this.of('\n\n', from)
    return blank >= 0 && blank < at ? -1 : at
  }
}

function dollarFormula(text: string, at: number, dollars: string, ends: NextOf): Formula | null {
  const from = at + dollars.length
  if (dollars === '$$') {
    const close = ends.within('$$', from, MAX_FORMULA_CHARS)
    if (close < 0 || text.slice(from, close).trim() === '') return null
    return { start: at, end: close + 2, body: text.slice(from, close), isDisplay: true }
  }
  // As in Pandoc, a formula neither begins nor ends with a space, and no digit follows it, so that prices are not
  // formulas.
  if (/[\s$]/.test(text[from] ?? ' ')) return null
  for (let close = from; ; close++) {
    close = ends.within('$', close, MAX_INLINE_CHARS)
    if (close < 0) return null
    if (text[close - 1] === '\\') continue
    const body = text.slice(from, close)
    const isEnd = !/\s/.test(text[close - 1] ?? ' ') && !/\d/.test(text[close + 1] ?? '')
    if (!isEnd || isProse(body)) return null
    return { start: at, end: close + 1, body, isDisplay: false }
  }
}

/**
 * True if the text between two dollar signs is prose with prices, such as `5 per box and 3`. GSM8K's calculator
 * annotations `<<…>>` also mark prose, because they occur next to prices.
 */
function isProse(body: string): boolean {
  if (body.includes('<<')) return true
  const words = body
    .replace(/\\(?:text|mathrm|textbf|operatorname)\{[^{}]*\}|\\[a-zA-Z]+/g, ' ')
    .match(/[a-zA-Z]{2,}/g)
  if (words === null) return false
  return words.length > 2 || /^[\d.,]|\n/.test(body)
}

function bracketFormula(text: string, at: number, bracket: string, ends: NextOf): Formula | null {
  const isDisplay = bracket === '['
  const close = ends.within(isDisplay ? '\\]' : '\\)', at + 2, MAX_FORMULA_CHARS)
  if (close < 0) return null
  return { start: at, end: close + 2, body: text.slice(at + 2, close), isDisplay }
}

function environmentFormula(
  text: string,
  at: number,
  environment: string,
  ends: NextOf,
): Formula | null {
  const close = `\\end{${environment}}`
  const found = ends.within(close, at, MAX_FORMULA_CHARS)
  if (found < 0) return null
  const end = found + close.length
  return { start: at, end, body: text.slice(at, end), isDisplay: true }
}

function boxedFormula(text: string, at: number, length: number): Formula | null {
  let depth = 1
  const last = Math.min(text.length, at + MAX_INLINE_CHARS)
  for (let i = at + length; i < last; i++) {
    const char = text[i]
    if (char === '\\') i++
    else if (char === '{') depth++
    else if (char === '}' && --depth === 0) {
      // An empty \boxed{} is part of an instruction, not a formula.
      if (text.slice(at + length, i).trim() === '') return null
      return { start: at, end: i + 1, body: text.slice(at, i + 1), isDisplay: false }
    } else if (char === '\n' && text[i + 1] === '\n') return null
  }
  return null
}

/** Asterisks between two operands are a product or a power: `2*3*4`, `2**3`. */
function isLiteralStar(text: string, at: number, stars: string): boolean {
  const [before, after] = [text[at - 1] ?? '', text[at + stars.length] ?? '']
  if (before === '*' || after === '*') return false
  return stars === '**'
    ? /\d/.test(before) && /\d/.test(after)
    : /[\w)\]]/.test(before) && /[\w([$\\]/.test(after)
}

function privateChars(text: string): string[] {
  const free: string[] = []
  for (let code = 0xe000; free.length < 4 && code <= 0xf8ff; code++) {
    const char = String.fromCharCode(code)
    if (!text.includes(char)) free.push(char)
  }
  if (free.length < 4) throw new Error('the text uses every private character')
  return free
}
