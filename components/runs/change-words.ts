import { type ChangesDto, MIN_SHIFT_STEPS } from '../../server/contract/changes.ts'

/** The sentence after the change: that steps were not searched, or that nothing stands out; empty if a cause is named. */
export function chosenText({
  chosen,
  standsOut,
}: Pick<ChangesDto, 'chosen' | 'standsOut'>): string {
  if (chosen === 'unsearched')
    return `Sudden changes are searched for in runs of at least ${MIN_SHIFT_STEPS} steps.`
  if (standsOut !== null) return ''
  return chosen === 'latest'
    ? 'Nothing stands out: the run has no sudden change. The newest steps are shown.'
    : 'Nothing stands out: no cause explains half of the change with certainty. Verdicts that only repeat the score are not counted as causes.'
}
