import { correlationWord, kappaWord } from '../../server/wire/agreement.ts'
import type { ComparePairDto, DisagreementMeasure } from '../../server/wire/compare.ts'
import { formatCount, formatPercent, formatScore, plural, quantityText } from '../format/numbers.ts'

/** How the two batches are drawn and named wherever they meet. */
export const SIDE_COLOUR = { first: 'var(--data-1)', second: 'var(--data-2)' } as const

/** What a list is put in order by. */
export const MEASURE_LABEL: Record<DisagreementMeasure, string> = {
  advantage: 'Advantage',
  rank: 'Rank',
  score: 'Score',
}

const percent = (share: number) => quantityText(formatPercent(share))

/** A share with what it is a share of; a dash where there is nothing to be shared. */
export function shareText(part: number, of: number): string {
  return of === 0 ? '–' : percent(part / of)
}

/** What the comparison says, in a sentence and a few more. */
export function pairVerdict(pair: ComparePairDto): { title: string; detail: string } {
  const { groups, spearman, classes, n } = pair
  const word = correlationWord(spearman)
  const details: string[] = []
  if (groups.comparable > 0) {
    details.push(
      `Of ${plural(groups.comparable, 'pair')} within a group that both put in order, ${groups.reversed === 0 ? 'none is' : `${shareText(groups.reversed, groups.comparable)} are`} the other way round.`,
    )
  }
  if (groups.n > 0) {
    details.push(
      groups.flipped === 0
        ? 'No advantage changes its sign.'
        : `${plural(groups.flipped, 'advantage')} of ${formatCount(groups.samples)} ${groups.flipped === 1 ? 'has' : 'have'} the opposite sign: what one reinforces, the other punishes.`,
    )
    const lost = groups.silentSecond - groups.silentBoth
    const gained = groups.silentFirst - groups.silentBoth
    if (lost > 0) details.push(`${plural(lost, 'group')} ${teaches(lost)} by the first alone.`)
    if (gained > 0)
      details.push(`${plural(gained, 'group')} ${teaches(gained)} by the second alone.`)
  }
  if (classes !== null) {
    const kappa = kappaWord(classes.kappa)
    const beyond =
      kappa === null ? '' : `, ${kappa} agreement beyond chance (κ ${formatScore(classes.kappa)})`
    return {
      title: `The same score for ${percent(classes.equal)} of ${plural(n, 'sample')}${beyond}`,
      detail: details.join(' '),
    }
  }
  const title =
    word === null
      ? 'One of the two gives every sample the same score: there is no order to compare'
      : `${sentence(word)} agreement in order over ${plural(n, 'sample')} (Spearman ${formatScore(spearman)})`
  return { title, detail: details.join(' ') }
}

function teaches(groups: number): string {
  return groups === 1 ? 'teaches' : 'teach'
}

function sentence(word: string): string {
  return word.charAt(0).toUpperCase() + word.slice(1)
}

/** A number with its sign; the real minus. */
export function signed(value: number | null | undefined): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return '–'
  return value > 0 ? `+${formatScore(value)}` : formatScore(value)
}
