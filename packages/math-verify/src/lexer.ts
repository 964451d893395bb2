/** Thrown for text that is not mathematics, or not supported by the parser. */
export class NotReadable extends Error {
  override readonly name = 'NotReadable'
}

export type Token =
  | { type: 'number'; text: string; spaced: boolean }
  | { type: 'letter'; text: string; spaced: boolean }
  /** With the backslash: `\frac`, `\{`. */
  | { type: 'command'; text: string; spaced: boolean }
  /** `\text{…}` or an accent. `text` is the command without its backslash, `content` the raw content of the braces. */
  | { type: 'styled'; text: string; content: string; spaced: boolean }
  | { type: 'sign'; text: string; spaced: boolean }

const skipped = new Set(
  (
    ', : ; ! > quad qquad thinspace medspace thickspace negthinspace negmedspace negthickspace hfil hfill ' +
    'displaystyle textstyle scriptstyle limits nolimits left right mleft mright middle ' +
    'big Big bigg Bigg bigl bigr Bigl Bigr biggl biggr Biggl Biggr bigm Bigm boxed fbox'
  ).split(' '),
)

const textStyles = 'text textit textbf textrm textnormal textsf texttt mathrm mbox'.split(' ')
const accents =
  'acute bar overline breve check dot ddot grave hat widehat tilde widetilde vec overrightarrow bm ' +
  'boldsymbol mathbb mathbf mathcal mathfrak mathit mathnormal mathscr mathsf mathtt underline'
const styled = new Set([...textStyles, ...accents.split(' ')])

/** Returns whether the command changes only the typeface: `\text{C}` means the same as `C`. */
export function isTextStyle(command: string): boolean {
  return textStyles.includes(command)
}

/** Characters with the meaning of a command or of another character. */
const synonyms: Record<string, string> = {
  '×': '\\times',
  '⋅': '\\cdot',
  '·': '\\cdot',
  '∙': '\\cdot',
  '∗': '*',
  '÷': '/',
  '∕': '/',
  '−': '-',
  '–': '-',
  '≤': '\\le',
  '⩽': '\\le',
  '≥': '\\ge',
  '⩾': '\\ge',
  '≠': '\\ne',
  '≈': '\\approx',
  '∞': '\\infty',
  '∪': '\\cup',
  '∩': '\\cap',
  '∈': '\\in',
  '∅': '\\emptyset',
  '±': '\\pm',
  '∓': '\\mp',
  '°': '\\degree',
  '√': '\\sqrt',
  ℕ: '\\N',
  ℤ: '\\Z',
  ℚ: '\\Q',
  ℝ: '\\R',
  ℂ: '\\C',
  α: '\\alpha',
  β: '\\beta',
  γ: '\\gamma',
  δ: '\\delta',
  ε: '\\epsilon',
  θ: '\\theta',
  λ: '\\lambda',
  μ: '\\mu',
  π: '\\pi',
  ρ: '\\rho',
  σ: '\\sigma',
  τ: '\\tau',
  φ: '\\phi',
  ω: '\\omega',
  Δ: '\\Delta',
  Ω: '\\Omega',
}

const twoSigns = new Set(['<=', '>=', '==', '!=', '~='])

/**
 * Splits LaTeX into tokens and drops layout commands (`\,`, `\left`, `\displaystyle`).
 * @throws NotReadable for an unsupported character or an incomplete command
 */
export function tokensOf(latex: string): Token[] {
  const tokens: Token[] = []
  let at = 0
  let spaced = false
  const push = (type: 'number' | 'letter' | 'command' | 'sign', text: string, length: number) => {
    tokens.push({ type, text, spaced })
    spaced = false
    at += length
  }
  while (at < latex.length) {
    const char = latex[at]!
    if (isSpace(char) || char === '~') {
      if (char === '~' && latex[at + 1] === '=') {
        push('command', '\\approx', 2)
        continue
      }
      spaced = true
      at++
    } else if (isDigit(char) || (char === '.' && isDigit(latex[at + 1]))) {
      const text = numberAt(latex, at)
      push('number', text, text.length)
    } else if (isLetter(char)) {
      push('letter', char, 1)
    } else if (char === '\\') {
      const name = commandAt(latex, at + 1)
      const end = at + 1 + name.length
      if (name === '') throw new NotReadable('a backslash at the end')
      if (styled.has(name)) {
        const content = bracedContent(latex, end)
        if (content !== null) {
          tokens.push({ type: 'styled', text: name, content: content.text, spaced })
          spaced = false
          at = content.end
          continue
        }
        if (isTextStyle(name)) throw new NotReadable(`\\${name} without braces`)
      }
      if (skipped.has(name)) {
        at = end
        // `\left.` is an empty delimiter.
        if ((name === 'left' || name === 'right') && latex[at] === '.') at++
        spaced = true
      } else if (name === '$') {
        at = end
      } else if (name === '%') {
        push('sign', '%', 2)
      } else {
        push('command', `\\${name}`, name.length + 1)
      }
    } else if (Object.hasOwn(synonyms, char)) {
      const text = synonyms[char]!
      push(text.startsWith('\\') ? 'command' : 'sign', text, 1)
    } else if (twoSigns.has(latex.slice(at, at + 2))) {
      push('sign', latex.slice(at, at + 2), 2)
    } else if ("+-*/^_=<>!|()[]{},;:&%.'".includes(char)) {
      push('sign', char, 1)
    } else {
      throw new NotReadable(`the character ${JSON.stringify(char)}`)
    }
  }
  return tokens
}

function commandAt(latex: string, start: number): string {
  let end = start
  while (isLetter(latex[end])) end++
  return latex.slice(start, end === start ? start + 1 : end)
}

function numberAt(latex: string, start: number): string {
  let end = start
  while (isDigit(latex[end])) end++
  if (latex[end] === '.' && isDigit(latex[end + 1])) {
    end++
    while (isDigit(latex[end])) end++
  }
  return latex.slice(start, end)
}

function bracedContent(latex: string, start: number): { text: string; end: number } | null {
  let open = start
  while (isSpace(latex[open])) open++
  if (latex[open] !== '{') return null
  let depth = 0
  for (let at = open; at < latex.length; at++) {
    if (latex[at] === '{') depth++
    else if (latex[at] === '}' && --depth === 0) {
      return { text: latex.slice(open + 1, at), end: at + 1 }
    }
  }
  return null
}

function isDigit(char: string | undefined): boolean {
  return char !== undefined && char >= '0' && char <= '9'
}

function isLetter(char: string | undefined): boolean {
  return char !== undefined && ((char >= 'a' && char <= 'z') || (char >= 'A' && char <= 'Z'))
}

function isSpace(char: string | undefined): boolean {
  return char === ' ' || char === '\t' || char === '\n' || char === '\r' || char === '\u00a0'
}
