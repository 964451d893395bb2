/** Verdicts of built-in rules that only say whether the answer was correct. */
const CORRECT = new Set(['equal', 'same text', 'equal to four digits', 'contained', 'all passed'])
const INCORRECT = new Set(['different', 'some passed', 'none passed'])

/** What a verdict says of the answer; null: more than whether it was correct, such as `no answer`. */
export function correctnessOf(verdict: string): 'correct' | 'incorrect' | null {
  if (CORRECT.has(verdict)) return 'correct'
  return INCORRECT.has(verdict) ? 'incorrect' : null
}

/**
 * Whether a verdict restates the score instead of explaining it. The verdict of a composite reward does if those of all
 * its components do: `format: equal, answer: different`.
 */
export function saysCorrectness(verdict: string): boolean {
  return (
    verdict === '' ||
    verdict.split(', ').every((part) => correctnessOf(part.replace(/^.*: /, '')) !== null)
  )
}
