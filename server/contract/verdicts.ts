/** Maximum number of verdicts that the roll-up of a batch counts separately; the others are counted together. */
export const MAX_VERDICTS = 32

/** Verdicts of built-in rules that only say whether the answer was correct. */
const CORRECT = new Set(['equal', 'same text', 'equal to four digits', 'contained', 'all passed'])
const INCORRECT = new Set(['different', 'some passed', 'none passed'])

/** Classifies a verdict as correct or incorrect. Returns null if the verdict names a cause, such as `no answer`. */
export function correctnessOf(verdict: string): 'correct' | 'incorrect' | null {
  if (CORRECT.has(verdict)) return 'correct'
  return INCORRECT.has(verdict) ? 'incorrect' : null
}

/**
 * Whether a verdict restates the score instead of explaining it. A composite verdict such as `format: equal, answer:
 * different` restates the score if each of its parts does.
 */
export function restatesScore(verdict: string): boolean {
  return (
    verdict === '' ||
    verdict.split(', ').every((part) => correctnessOf(part.replace(/^.*: /, '')) !== null)
  )
}
