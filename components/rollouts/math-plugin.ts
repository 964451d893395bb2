import rehypeKatex from 'rehype-katex'
import 'katex/dist/katex.min.css'

/**
 * KaTeX with limits for hostile formulas. `trust` is off by default, so that no formula has links, images or styles. An
 * invalid formula shows its source. The element around a formula is labeled with the source, so KaTeX's MathML, which
 * would double the number of elements, is omitted.
 */
export const typesetMath: [typeof rehypeKatex, Parameters<typeof rehypeKatex>[0]] = [
  rehypeKatex,
  { output: 'html', maxSize: 10, maxExpand: 200, strict: 'ignore', errorColor: 'var(--bad)' },
]
