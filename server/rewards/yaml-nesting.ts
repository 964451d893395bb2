import { CST, Lexer } from 'yaml'

/**
 * Maximum nesting of a YAML or JSON text. The parser takes time that grows with the square of the nesting: 145 s for
 * 400,000 brackets.
 */
export const MAX_NESTING = 100

/** Kinds of tokens that begin a nested block, such as `- - a`. */
const INDICATORS: ReadonlySet<CST.TokenType | null> = new Set([
  'seq-item-ind',
  'explicit-key-ind',
  'map-value-ind',
])

/**
 * Returns the line, from 1, on which a text is nested more than {@link MAX_NESTING} levels deep, or null. Nesting by
 * indentation is not counted, because each level needs one more column, so only a very long text can nest deeply.
 */
export function tooNestedAt(text: string): number | null {
  let line = 1
  let inFlow = 0
  let inLine = 0
  let isText = false
  for (const token of new Lexer().lex(text)) {
    const kind: CST.TokenType | null = isText ? null : CST.tokenType(token)
    isText = kind === 'scalar'
    if (kind === 'flow-seq-start' || kind === 'flow-map-start') inFlow++
    // A closing bracket may lack its opening one.
    else if (kind === 'flow-seq-end' || kind === 'flow-map-end') inFlow = Math.max(0, inFlow - 1)
    else if (kind === 'flow-error-end') inFlow = 0
    else if (kind === 'newline') inLine = 0
    else if (inFlow === 0 && INDICATORS.has(kind)) inLine++
    if (inFlow + inLine > MAX_NESTING) return line
    for (let at = token.indexOf('\n'); at >= 0; at = token.indexOf('\n', at + 1)) line++
  }
  return null
}
