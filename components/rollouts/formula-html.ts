import katex, { type KatexOptions } from 'katex'
import 'katex/dist/katex.min.css'

/**
 * Limits for hostile formulas. KaTeX's `trust` is off by default, so formulas cannot contain links, images or styles.
 * MathML is omitted, because it would double the number of elements. Screen readers read the formula's label instead,
 * which is its source.
 */
const OPTIONS: KatexOptions = {
  output: 'html',
  maxSize: 10,
  maxExpand: 200,
  strict: 'ignore',
  errorColor: 'var(--bad)',
  throwOnError: false,
}

/** A typeset formula as HTML. An invalid formula shows its source with the error. Null if KaTeX failed. */
export function formulaHtml(body: string, isDisplay: boolean): string | null {
  try {
    return katex.renderToString(body, { ...OPTIONS, displayMode: isDisplay })
  } catch {
    return null
  }
}
