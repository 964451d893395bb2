import { type ChangesDto, MIN_SHIFT_STEPS } from '../../server/contract/changes.ts'
import { formatCount, percentText, significant } from '../format/numbers.ts'

/**
 * The text after the headline if the run has too few steps to detect changes or nothing stands out, otherwise empty.
 */
export function chosenText({
  chosen,
  standsOut,
}: Pick<ChangesDto, 'chosen' | 'standsOut'>): string {
  if (chosen === 'unsearched')
    return `Sudden changes are detected only in runs of at least ${MIN_SHIFT_STEPS} steps.`
  if (standsOut !== null) return ''
  return chosen === 'latest'
    ? 'Nothing stands out: the run has no sudden change. The newest steps are shown.'
    : 'Nothing stands out: no cause explains half of the change with certainty. Verdicts that only repeat the score are not counted as causes.'
}

/** The samples excluded from the mean, by reason, as shares of each range, because the ranges differ in size. */
export function excludedTexts({
  before,
  after,
  excluded,
}: {
  before: { samples: number }
  after: { samples: number }
  excluded: ChangesDto['excluded']
}): string[] {
  const all = (side: 'before' | 'after', counted: number) =>
    excluded.reduce((sum, one) => sum + one[side], counted)
  const [first, last] = [all('before', before.samples), all('after', after.samples)]
  return excluded.map(
    ({ reason, before, after }) =>
      `${reason} ${smallShareText(before / first)} → ${smallShareText(after / last)} (${formatCount(before)}, ${formatCount(after)}; not in the mean)`,
  )
}

/** A share in percent. Below 10 %, it has two significant digits, so that small shares can be compared. */
function smallShareText(share: number): string {
  return share > 0 && share < 0.0995 ? `${significant(share * 100, 2)}\u00a0%` : percentText(share)
}
