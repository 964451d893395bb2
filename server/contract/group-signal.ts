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

/** Values of the filter of samples by group signal. `no_signal`: any but `varied`. An `empty` group has no samples. */
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
    'All scored members have the same score between 0 and 1, or a reward model gave the whole batch one score.',
  single_sample: 'Only one member was scored.',
  all_failed: 'No member has a score: all failed, or the group was dropped.',
  empty: 'The group has no members.',
}

/**
 * The signal of a group in a batch to which reward models gave one single score. Such a score does not show that
 * answers are correct or incorrect.
 */
export function withoutSpread(signal: GroupSignal): GroupSignal {
  return signal === 'all_correct' || signal === 'all_incorrect' ? 'all_equal' : signal
}

/** Returns zero for every signal. */
export function noSignals(): GroupSignalCounts {
  return Object.fromEntries(GROUP_SIGNALS.map((signal) => [signal, 0])) as GroupSignalCounts
}
