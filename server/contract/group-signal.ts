/**
 * Signals of groups. Only a `varied` group has a learning signal; the other values say why a group has none. Pages list
 * the signals in this order.
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

/**
 * Values of the sample filter `groupSignal`. `no_signal` matches every signal except `varied`. `empty` is left out,
 * because such a group has no samples.
 */
export const GROUP_SIGNAL_FILTERS = [
  'varied',
  'no_signal',
  ...GROUP_SIGNALS.filter((signal) => signal !== 'varied' && signal !== 'empty'),
] as const
export type GroupSignalFilter = (typeof GROUP_SIGNAL_FILTERS)[number]

/** The number of groups with each signal. */
export type GroupSignalCounts = Record<GroupSignal, number>

/** The meaning of each signal, as docs/api.md prints it. */
export const GROUP_SIGNAL_TEXT: Record<GroupSignal, string> = {
  varied: 'Scores differ, so the group has nonzero advantages.',
  all_correct: 'All scored members have the same score, 1 or more.',
  all_incorrect: 'All scored members have the same score, 0 or less.',
  all_equal:
    'All scored members have the same score, and it does not show whether they are correct. Either it is between 0 and 1, or only reward models or judges score the batch, and their scores do not range from 0 or less to exactly 1.',
  single_sample: 'Only one member was scored.',
  all_failed: 'No member has a score: all failed, or the group was dropped.',
  empty: 'The group has no members.',
}

/**
 * Replaces `all_correct` and `all_incorrect` by `all_equal`, for batches whose scores do not show which answers are
 * correct.
 */
export function withoutCorrectness(signal: GroupSignal): GroupSignal {
  return signal === 'all_correct' || signal === 'all_incorrect' ? 'all_equal' : signal
}

/** Returns zero for every signal. */
export function noSignals(): GroupSignalCounts {
  return Object.fromEntries(GROUP_SIGNALS.map((signal) => [signal, 0])) as GroupSignalCounts
}
