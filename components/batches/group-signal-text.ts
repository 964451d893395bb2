import {
  GROUP_SIGNALS,
  type GroupSignal,
  type GroupSignalCounts,
} from '../../server/wire/group-signal.ts'
import { formatCount, formatPercent, quantityText } from '../format/numbers.ts'

/** What a class is called where there is little room. */
export const SIGNAL_LABEL: Record<GroupSignal, string> = {
  varied: 'varied',
  all_right: 'all right',
  all_wrong: 'all wrong',
  all_equal: 'all equal',
  single: 'one scored',
  all_failed: 'none scored',
  empty: 'empty',
}

/** A class has one colour everywhere: what teaches stands out, what failed is hatched where it can be, the rest is quiet. */
export const SIGNAL_COLOUR: Record<GroupSignal, string> = {
  varied: 'var(--data-1)',
  all_right: 'var(--data-3)',
  all_wrong: 'var(--data-2)',
  all_equal: 'var(--data-7)',
  single: 'var(--data-8)',
  all_failed: 'var(--bad)',
  empty: 'var(--data-8)',
}

/** How many groups there are, and how many of them teach nothing. */
export function countsOf(counts: GroupSignalCounts): { groups: number; nothing: number } {
  const groups = GROUP_SIGNALS.reduce((n, signal) => n + counts[signal], 0)
  return { groups, nothing: groups - counts.varied }
}

/** The same where there is room for one number: `18 teach nothing, 14 %`. */
export function teachNothingInShort(counts: GroupSignalCounts): string {
  const { groups, nothing } = countsOf(counts)
  if (groups === 0 || nothing === 0 || counts.single === groups) return teachNothingText(counts)
  return `${formatCount(nothing)} teach nothing, ${quantityText(formatPercent(nothing / groups))}`
}

/**
 * How many groups teach nothing, and why: `38 of 128 teach nothing: 30 all right, 8 all wrong`. Groups of one are nothing
 * to compare, and said to be that.
 */
export function teachNothingText(counts: GroupSignalCounts): string {
  const { groups, nothing } = countsOf(counts)
  if (groups === 0) return 'none completed'
  if (counts.single === groups) return 'one scored member each'
  if (nothing === 0) return 'all of them varied'
  return `${formatCount(nothing)} of ${formatCount(groups)} teach nothing: ${GROUP_SIGNALS.filter(
    (signal) => signal !== 'varied' && counts[signal] > 0,
  )
    .map((signal) => `${formatCount(counts[signal])} ${SIGNAL_LABEL[signal]}`)
    .join(', ')}`
}
