import { correlationWord, kappaWord, shownKappa } from '../../server/contract/agreement.ts'
import type { ComparePairDto, DisagreementMeasure } from '../../server/contract/compare.ts'
import { formatCount, formatScore, percentText, plural } from '../format/numbers.ts'
import { capitalized } from '../format/text.ts'

export const SIDE_COLOR = { first: 'var(--data-1)', second: 'var(--data-2)' } as const

export const MEASURE_LABEL: Record<DisagreementMeasure, string> = {
  advantage: 'Advantage',
  rank: 'Rank',
  score: 'Score',
}

export function shareText(part: number, of: number): string {
  return of === 0 ? '–' : percentText(part / of)
}

export function pairVerdict(pair: ComparePairDto): { title: string; detail: string } {
  const { groups, spearman, classes, n } = pair
  const word = correlationWord(spearman)
  const details: string[] = []
  if (groups.comparable > 0) {
    details.push(
      `${groups.reversed === 0 ? 'None' : shareText(groups.reversed, groups.comparable)} of ${plural(groups.comparable, 'within-group pair')} ${groups.comparable === 1 ? 'is' : 'are'} discordant.`,
    )
  }
  if (groups.n > 0) {
    details.push(
      groups.signFlipped === 0
        ? 'No advantage sign flipped.'
        : `The advantage sign flipped for ${formatCount(groups.signFlipped)} of ${plural(groups.samples, 'sample')}.`,
    )
    const lost = groups.noSignalSecond - groups.noSignalBoth
    const gained = groups.noSignalFirst - groups.noSignalBoth
    if (lost > 0)
      details.push(`${plural(lost, 'group')} ${has(lost)} signal only in the first batch.`)
    if (gained > 0)
      details.push(`${plural(gained, 'group')} ${has(gained)} signal only in the second batch.`)
  }
  if (classes !== null) {
    const beyond =
      classes.kappa === null
        ? ''
        : `, ${kappaWord(classes.kappa)} agreement beyond chance (κ ${kappaText(classes.kappa)})`
    return {
      title: `Equal scores for ${percentText(classes.equal)} of ${plural(n, 'sample')}${beyond}`,
      detail: details.join(' '),
    }
  }
  const title =
    word === null
      ? 'One reward gives every sample the same score, so ranks cannot be compared'
      : `${capitalized(word)} rank agreement over ${plural(n, 'sample')} (Spearman ${formatScore(spearman)})`
  return { title, detail: details.join(' ') }
}

export function kappaText(kappa: number | null): string {
  return formatScore(kappa === null ? null : shownKappa(kappa))
}

function has(groups: number): string {
  return groups === 1 ? 'has' : 'have'
}
