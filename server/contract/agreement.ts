/** Words for measures of agreement. The Compare page and docs/compare.md print these tables. */

/** A word for absolute values of at least `from`. */
export interface AgreementWord {
  from: number
  word: string
}

/**
 * Correlation (Pearson, Spearman), after Schober, Boer and Schwarte, “Correlation Coefficients: Appropriate Use and
 * Interpretation”, Anesthesia & Analgesia 126(5), 2018, table 1.
 */
export const CORRELATION_WORDS: readonly AgreementWord[] = [
  { from: 0.9, word: 'very strong' },
  { from: 0.7, word: 'strong' },
  { from: 0.4, word: 'moderate' },
  { from: 0.1, word: 'weak' },
  { from: 0, word: 'negligible' },
]

/**
 * Cohen's κ, after Landis and Koch, “The Measurement of Observer Agreement for Categorical Data”, Biometrics 33(1),
 * 1977. Here, a value equal to `from` has the next lower word. Values of 0 and below are poor.
 */
export const KAPPA_WORDS: readonly AgreementWord[] = [
  { from: 0.8, word: 'almost perfect' },
  { from: 0.6, word: 'substantial' },
  { from: 0.4, word: 'moderate' },
  { from: 0.2, word: 'fair' },
  { from: 0, word: 'slight' },
]

/** Returns the word for a correlation, such as `strong` or `weak negative`. Null if the correlation is undefined. */
export function correlationWord(r: number | null): string | null {
  if (r === null) return null
  const { word } = CORRELATION_WORDS.find(({ from }) => Math.abs(r) >= from) as AgreementWord
  return r < 0 && word !== 'negligible' ? `${word} negative` : word
}

/** Returns the word for Cohen's κ, or null if κ is undefined. */
export function kappaWord(kappa: number | null): string | null {
  if (kappa === null) return null
  return KAPPA_WORDS.find(({ from }) => shownKappa(kappa) > from)?.word ?? 'poor'
}

/** Returns κ as pages show it: 0 if it rounds to 0 at three decimals, otherwise unchanged. */
export function shownKappa(kappa: number): number {
  return Math.abs(kappa) < 0.0005 ? 0 : kappa
}
