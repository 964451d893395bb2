import { GROUP_SIGNALS, type GroupSignalCounts } from '../contract/group-signal.ts'
import { MONITOR_DEFINITIONS, MONITORS, type MonitorName } from '../contract/monitors.ts'
import { isByModelsAlone, type ResolvedReward } from '../contract/resolved-reward.ts'
import { median, robustDeviation } from '../median.ts'
import type { FigureRow, WindowRow } from '../store/sql/monitor-batches.ts'

export interface Reading {
  /** Null if there were too few samples or the monitor's inputs were not recorded. */
  value: number | null
  n: number
  /** Details shown next to the value. */
  detail: string | null
}

export interface Watched {
  figures: FigureRow
  signals: GroupSignalCounts | null
  reward: Pick<ResolvedReward, 'kind' | 'components' | 'wraps' | 'gdpo'>
  /** Up to `WINDOW` previous batches, newest first. */
  window: readonly WindowRow[]
  /**
   * The standard deviation with which an open variance collapse is compared, or null if none is open. It is fixed when
   * the incident opens, because a moving median would follow the collapse and close the incident.
   */
  reference: number | null
}

/** Share of the score range that counts as its top or bottom. */
const END_OF_RANGE = 0.01
/** Minimum number of previous batches for a comparison. */
const MIN_REFERENCES = 5
const MIN_MEANS = 10
/** Number of newest batches whose median mean {@link readDrop} takes as the usual mean. */
const RECENT_MEANS = 5
/**
 * Minimum standard deviation of batch means, as a share of the score range. Equal means would have a deviation of 0.
 */
const MIN_DEVIATION = 0.01

interface MonitorReader {
  /** The exact definition of the monitor's value, for docs/monitors.md. */
  figure: string
  read(watched: Watched): Reading
}

/** How each monitor's value is computed. docs/monitors.md has the sources. */
export const MONITOR_READERS: Record<MonitorName, MonitorReader> = {
  reward_drop: {
    figure:
      'fall of the mean reward below its median over the previous 5 batches, in standard deviations of a batch mean. Needs 10 earlier batches',
    read: readDrop,
  },
  length_correlation: {
    figure:
      'Pearson correlation of response length and score within the batch. The length is in tokens if every scored sample has a `responseLength`, otherwise in bytes',
    read: ({ figures }) => ({
      value: figures.length_correlation,
      n: figures.length_n ?? 0,
      detail: figures.length_unit === null ? null : `length in ${figures.length_unit}`,
    }),
  },
  variance_collapse: {
    figure:
      'mean within-group standard deviation of the scores ÷ its median over the previous 20 batches. Needs 5 earlier batches with at least 8 groups',
    read: readCollapse,
  },
  ceiling: {
    figure:
      'share of scores in the highest 1 % of the score range of this and the previous 20 batches. If all of these scores are equal and above 0, every score counts',
    read: (watched) => readEnd(watched, 'top'),
  },
  floor: {
    figure:
      'share of scores in the lowest 1 % of the same range. If all of these scores are equal and at most 0, every score counts',
    read: (watched) => readEnd(watched, 'bottom'),
  },
  component_dominance: {
    figure:
      'for composite rewards and the manager `gdpo`: the largest share of one component in the variance of the reward (weight × covariance with the reward ÷ variance of the reward)',
    read: readDominance,
  },
  duplicates: {
    figure: 'share of samples whose response equals another response of their group',
    read: ({ figures }) => share(figures.duplicates, figures.duplicates_of ?? 0),
  },
  all_incorrect: {
    figure: 'share of groups in which all scores are the same and not above 0',
    read: (watched) => share(watched.signals?.all_incorrect ?? null, countCompared(watched)),
  },
  failures: {
    figure: 'share of failed samples',
    read: ({ figures }) => share(figures.failed, figures.samples),
  },
  no_signal: {
    figure: 'share of groups in which all scores are the same or fewer than two samples are scored',
    read: (watched) => {
      const { signals } = watched
      return share(
        signals === null ? null : countGroups(signals) - signals.varied,
        countCompared(watched),
      )
    },
  },
  no_spread: {
    figure:
      'for rewards and components that only reward models score: the highest minus the lowest score of the batch',
    read: readSpread,
  },
}

export function readMonitors(watched: Watched): Record<MonitorName, Reading> {
  return Object.fromEntries(
    MONITORS.map((name) => {
      const reading = MONITOR_READERS[name].read(watched)
      const tooFew = reading.n < MONITOR_DEFINITIONS[name].minCount
      const isUsable = !tooFew && reading.value !== null && Number.isFinite(reading.value)
      return [name, isUsable ? reading : { ...reading, value: null }]
    }),
  ) as Record<MonitorName, Reading>
}

function countGroups(signals: GroupSignalCounts): number {
  return GROUP_SIGNALS.reduce((n, signal) => n + signals[signal], 0) - signals.empty
}

/**
 * Number of groups whose samples are compared. If every group has a single sample, the run has no advantages by design,
 * and no group counts. The counts decide this, not the classes: a group whose only sample failed is `all_failed`, not
 * `single_sample`.
 */
function countCompared({ figures, signals }: Watched): number {
  const groups = signals === null ? 0 : countGroups(signals)
  return figures.samples <= groups ? 0 : groups
}

/**
 * Returns each component's share of a composite reward's variance: weight × covariance with the reward ÷ variance of
 * the reward. The shares of a weighted sum add up to 1; a share above 1 is offset by negative ones.
 */
export function varianceShares({
  figures,
  reward,
}: {
  figures: FigureRow
  reward: Pick<ResolvedReward, 'components' | 'gdpo'>
}): { name: string; share: number; n: number }[] {
  const whole = figures.components?.find(({ name }) => name === '')?.std ?? figures.std
  if (!whole) return []
  const weights = [
    ...(reward.components ?? []).map(({ name, weight }) => [name, weight] as const),
    ...(reward.gdpo?.keys ?? []).map((key, at) => [key, reward.gdpo?.weights[at] ?? 1] as const),
  ]
  return weights.flatMap(([name, weight]) => {
    const part = figures.components?.find((one) => one.name === name)
    if (part === undefined || part.corr === undefined || part.std === null) return []
    // A constant component has no correlation and no share.
    return [{ name, share: (weight * (part.corr ?? 0) * part.std) / whole, n: part.n }]
  })
}

function readDominance(watched: Watched): Reading {
  const shares = varianceShares(watched)
  if (shares.length < 2) return { value: null, n: 0, detail: null }
  const most = shares.reduce((a, b) => (b.share > a.share ? b : a))
  return { value: most.share, n: most.n, detail: most.name }
}

function readSpread({ figures, reward }: Watched): Reading {
  const seen: Reading[] = []
  const note = (name: string | null, n: number, min: number | null, max: number | null) => {
    if (n < MONITOR_DEFINITIONS.no_spread.minCount || min === null || max === null) return
    const what = name === null ? 'every score' : `every score of ${name}`
    seen.push({ value: max - min, n, detail: min === max ? `${what} is ${round(min)}` : name })
  }
  if (isByModelsAlone(reward)) {
    note(null, countScores(figures), figures.min, figures.max)
  }
  for (const { name, reward: part } of reward.components ?? []) {
    const scores = figures.components?.find((one) => one.name === name)
    if (scores && isByModelsAlone(part)) note(name, scores.n, scores.min, scores.max)
  }
  if (seen.length === 0) return { value: null, n: 0, detail: null }
  return seen.reduce((a, b) => ((b.value as number) < (a.value as number) ? b : a))
}

/**
 * Returns the fall of the mean below its median over the last batches, in standard deviations of a batch's mean. That
 * deviation is estimated from the differences of successive means, so that a trend does not raise it. The result is
 * negative if the mean is above the median.
 */
function readDrop({ figures, window }: Watched): Reading {
  const n = countScores(figures)
  const means = window.flatMap(({ mean }) => mean ?? [])
  if (figures.mean === null || means.length < MIN_MEANS) return { value: null, n, detail: null }
  const usual = median(means.slice(0, RECENT_MEANS))
  const differences = means.slice(1).map((mean, i) => mean - (means[i] as number))
  const range = rangeOf(figures, window)
  // The difference of two means varies √2 times as much as one mean.
  const deviation = Math.max(
    robustDeviation(differences) / Math.SQRT2,
    range === null ? 0 : MIN_DEVIATION * (range.high - range.low),
  )
  const fall = usual - figures.mean
  return {
    value: fall === 0 ? 0 : fall / deviation,
    n,
    detail: `mean ${round(figures.mean)}, usually ${round(usual)}`,
  }
}

/** Returns the standard deviation within groups divided by {@link referenceOf}. */
function readCollapse(watched: Watched): Reading {
  const { figures } = watched
  const usual = referenceOf(watched)
  const n = figures.group_std_of ?? 0
  if (figures.group_std === null || usual === null) return { value: null, n, detail: null }
  return {
    value: figures.group_std / usual,
    n,
    detail: `standard deviation ${round(figures.group_std)}, usually ${round(usual)}`,
  }
}

/**
 * Returns the usual standard deviation, with which a batch is compared: the reference of an open variance collapse,
 * otherwise the median over the previous batches. Null if there are too few previous batches or their median is 0.
 */
export function referenceOf({
  window,
  reference,
}: Pick<Watched, 'window' | 'reference'>): number | null {
  if (reference !== null) return reference
  const before = window
    .filter(
      ({ group_std_of }) => (group_std_of ?? 0) >= MONITOR_DEFINITIONS.variance_collapse.minCount,
    )
    .flatMap(({ group_std }) => group_std ?? [])
  return before.length < MIN_REFERENCES ? null : median(before) || null
}

function readEnd({ figures, window }: Watched, end: 'top' | 'bottom'): Reading {
  const n = countScores(figures)
  const scores = rangeOf(figures, window)
  if (n === 0 || scores === null) return { value: null, n, detail: null }
  const { low, high } = scores
  if (low === high) {
    // Equal scores have no range. They count as the top if they are above 0, otherwise as the bottom.
    const isTop = high > 0
    return { value: isTop === (end === 'top') ? 1 : 0, n, detail: `every score is ${round(high)}` }
  }
  const width = (high - low) * END_OF_RANGE
  const [from, to] = end === 'top' ? [high - width, high] : [low, low + width]
  const detail = `score range ${round(low)} to ${round(high)}`
  return { value: countBetween(figures, from, to) / n, n, detail }
}

/** Number of scores of a batch, without failed and substituted samples. */
function countScores({ bin_counts }: FigureRow): number {
  return bin_counts.reduce((sum, count) => sum + count, 0)
}

function rangeOf(
  { min, max }: FigureRow,
  window: readonly WindowRow[],
): { low: number; high: number } | null {
  if (min === null || max === null) return null
  return {
    low: window.reduce((low, row) => Math.min(low, row.min ?? low), min),
    high: window.reduce((high, row) => Math.max(high, row.max ?? high), max),
  }
}

/** Counts the scores between two values. Scores known only by their bin are taken as evenly spread within the bin. */
function countBetween(figures: FigureRow, from: number, to: number): number {
  const { bin_values: values, bin_counts: counts } = figures
  // A score at the edge counts despite rounding errors.
  const slack = (to - from) * 1e-9
  if (values.length > 0) {
    return counts.reduce((sum, count, at) => {
      const value = values[at] as number
      return value >= from - slack && value <= to + slack ? sum + count : sum
    }, 0)
  }
  const low = figures.min as number
  const width = ((figures.max as number) - low) / counts.length
  return counts.reduce((sum, count, at) => {
    const left = low + at * width
    const covered = Math.min(to, left + width) - Math.max(from, left)
    return sum + count * Math.min(1, Math.max(0, covered / width))
  }, 0)
}

function share(part: number | null, of: number): Reading {
  return { value: part === null || of === 0 ? null : part / of, n: of, detail: null }
}

function round(value: number): string {
  return String(Number(value.toPrecision(3)))
}
