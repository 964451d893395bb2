/**
 * What a group's scores teach a policy: `varied` something, every other word nothing, and why. The order is that in which
 * pages list them.
 */
export const GROUP_SIGNALS = [
  'varied',
  'all_correct',
  'all_incorrect',
  'all_equal',
  'single_sample',
  'all_failed',
  'empty',
] as const
export type GroupSignal = (typeof GROUP_SIGNALS)[number]

/** Groups of each class; classes that no group is of are 0. */
export type GroupSignalCounts = Record<GroupSignal, number>

/** What each word means; printed in docs/api.md. */
export const GROUP_SIGNAL_TEXT: Record<GroupSignal, string> = {
  varied: 'Scores differ, so the group has nonzero advantages.',
  all_correct: 'All scored members have the same score, 1 or more.',
  all_incorrect: 'All scored members have the same score, 0 or less.',
  all_equal:
    'All scored members have the same score between 0 and 1, or a reward model gave the whole batch one score.',
  single_sample: 'Only one member was scored.',
  all_failed: 'No member has a score: all failed, or the group was dropped.',
  empty: 'The group has no members.',
}

/**
 * A class in a batch whose scores, given by reward models alone, are all the same: a model that says the same of everything
 * proves no answer right or wrong.
 */
export function withoutSpread(signal: GroupSignal): GroupSignal {
  return signal === 'all_correct' || signal === 'all_incorrect' ? 'all_equal' : signal
}

/** Counts of zero. */
export function noSignals(): GroupSignalCounts {
  return Object.fromEntries(GROUP_SIGNALS.map((signal) => [signal, 0])) as GroupSignalCounts
}
