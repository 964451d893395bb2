/** Verdicts of built-in rules that only say whether the answer was correct. */
const CORRECT = ['equal', 'same text', 'equal to four digits', 'contained', 'all passed']
const INCORRECT = ['different', 'some passed', 'none passed']
const CORRECTNESS = new Set([...CORRECT, ...INCORRECT])

/**
 * Whether a verdict restates the score instead of explaining it. A composite reward's verdict does if all its components'
 * do: `format: equal, answer: different`.
 */
export function saysCorrectness(verdict: string): boolean {
  return (
    verdict === '' ||
    verdict.split(', ').every((part) => CORRECTNESS.has(part.replace(/^.*: /, '')))
  )
}
