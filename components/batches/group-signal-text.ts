import {
  GROUP_SIGNALS,
  type GroupSignal,
  type GroupSignalCounts,
  type GroupSignalFilter,
} from '../../server/contract/group-signal.ts'
import { formatCount, percentText } from '../format/numbers.ts'

export const SIGNAL_LABEL: Record<GroupSignal, string> = {
  varied: 'Varied',
  all_correct: 'All correct',
  all_incorrect: 'All incorrect',
  all_equal: 'All equal',
  single_sample: 'Single sample',
  all_failed: 'None scored',
  empty: 'Empty',
}

export const SIGNAL_FILTER_LABEL: Record<GroupSignalFilter, string> = {
  ...SIGNAL_LABEL,
  no_signal: 'No-signal',
}

/** The color of each class. `all_failed` is hatched instead. */
export const SIGNAL_COLOR: Record<GroupSignal, string> = {
  varied: 'var(--data-1)',
  all_correct: 'var(--data-3)',
  all_incorrect: 'var(--data-2)',
  all_equal: 'var(--data-7)',
  single_sample: 'var(--data-8)',
  all_failed: 'var(--bad)',
  empty: 'var(--data-8)',
}

/** The number of groups, and of no-signal groups among them. */
export function countsOf(counts: GroupSignalCounts): { groups: number; nothing: number } {
  const groups = GROUP_SIGNALS.reduce((n, signal) => n + counts[signal], 0)
  return { groups, nothing: groups - counts.varied }
}

/**
 * The number and share of no-signal groups: `18 no-signal, 14 %`. Returns {@link noSignalText} if there are none, and
 * for single-sample groups.
 */
export function noSignalShortText(counts: GroupSignalCounts): string {
  const { groups, nothing } = countsOf(counts)
  if (groups === 0 || nothing === 0 || counts.single_sample === groups) return noSignalText(counts)
  return `${formatCount(nothing)} no-signal, ${percentText(nothing / groups)}`
}

/**
 * The number of no-signal groups by class: `38 of 128 no-signal: 30 all correct, 8 all incorrect`. If all groups
 * have a single sample, the text says only this.
 */
export function noSignalText(counts: GroupSignalCounts): string {
  const { groups, nothing } = countsOf(counts)
  if (groups === 0) return 'None completed'
  if (counts.single_sample === groups) return 'Single-sample groups'
  if (nothing === 0) return 'All varied'
  return `${formatCount(nothing)} of ${formatCount(groups)} no-signal: ${GROUP_SIGNALS.filter(
    (signal) => signal !== 'varied' && counts[signal] > 0,
  )
    .map((signal) => `${formatCount(counts[signal])} ${SIGNAL_LABEL[signal].toLowerCase()}`)
    .join(', ')}`
}
