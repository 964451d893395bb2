import { GROUP_SIGNALS, type GroupSignalCounts } from '../contract/group-signal.ts'
import { MONITOR_DEFINITIONS, type MonitorName } from '../contract/monitors.ts'
import { isByModelsAlone, type ResolvedReward } from '../contract/resolved-reward.ts'
import type { FigureRow, WindowRow } from '../store/sql/monitor-batches.ts'

/** A monitor's number at one batch. */
export interface Reading {
  /** null: too few samples, or what it is made of was not recorded. */
  value: number | null
  n: number
  /** What belongs beside the number. */
  detail: string | null
}

/** What a batch is judged by. */
export interface Watched {
  figures: FigureRow
  signals: GroupSignalCounts | null
  reward: Pick<ResolvedReward, 'kind' | 'components' | 'wraps' | 'gdpo'>
  /** Up to `WINDOW` batches before. */
  window: readonly WindowRow[]
  /** What a collapse that is open was measured against when it opened: a window that follows it down would close it. */
  reference: number | null
}

/** Share of the range from the least to the greatest score that counts as its end. */
const END_OF_RANGE = 0.01
/** Fewer batches before are no habit that one could fall from. */
const MIN_REFERENCES = 5

/** What every monitor reads of a batch. The definitions are told in docs/monitors.md, and from where they are. */
export function readMonitors(watched: Watched): Record<MonitorName, Reading> {
  const { figures, signals } = watched
  const { ceiling, floor } = readEnds(watched)
  const groups = signals === null ? 0 : GROUP_SIGNALS.reduce((n, s) => n + signals[s], 0)
  // Groups of which one was scored are nothing to compare; a run of such groups has no advantages by design.
  const compared = signals === null || signals.single_sample === groups ? 0 : groups - signals.empty
  const readings: Record<MonitorName, Reading> = {
    length_correlation: {
      value: figures.length_correlation,
      n: figures.length_n ?? 0,
      detail: figures.length_unit === null ? null : `length in ${figures.length_unit}`,
    },
    variance_collapse: readCollapse(watched),
    ceiling,
    floor,
    component_dominance: readDominance(watched),
    duplicates: share(figures.duplicates, figures.duplicates_of ?? 0),
    all_incorrect: share(signals?.all_incorrect ?? null, compared),
    failures: share(figures.failed, figures.samples),
    no_signal: share(signals === null ? null : groups - signals.empty - signals.varied, compared),
    no_spread: readSpread(watched),
  }
  for (const [name, reading] of Object.entries(readings) as [MonitorName, Reading][]) {
    const tooFew = reading.n < MONITOR_DEFINITIONS[name].minCount
    if (tooFew || (reading.value !== null && !Number.isFinite(reading.value))) reading.value = null
  }
  return readings
}

/**
 * How much of a composite reward's variance each part carries: weight × covariance with the reward ÷ variance of the
 * reward. Over a weighted sum the shares add up to 1; one beyond it is held back by the others.
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
    // One that does not vary carries nothing, and correlates with nothing.
    return [{ name, share: (weight * (part.corr ?? 0) * part.std) / whole, n: part.n }]
  })
}

function readDominance(watched: Watched): Reading {
  const shares = varianceShares(watched)
  if (shares.length < 2) return { value: null, n: 0, detail: null }
  const most = shares.reduce((a, b) => (b.share > a.share ? b : a))
  return { value: most.share, n: most.n, detail: most.name }
}

/** The least spread among what reward models alone scored: the reward itself, or a part of it. */
function readSpread({ figures, reward }: Watched): Reading {
  const seen: Reading[] = []
  const note = (name: string | null, n: number, min: number | null, max: number | null) => {
    if (n < MONITOR_DEFINITIONS.no_spread.minCount || min === null || max === null) return
    const what = name === null ? 'every score' : `every score of ${name}`
    seen.push({ value: max - min, n, detail: min === max ? `${what} is ${round(min)}` : name })
  }
  if (isByModelsAlone(reward)) {
    const n = figures.bin_counts.reduce((sum, count) => sum + count, 0)
    note(null, n, figures.min, figures.max)
  }
  for (const { name, reward: part } of reward.components ?? []) {
    const scores = figures.components?.find((one) => one.name === name)
    if (scores && isByModelsAlone(part)) note(name, scores.n, scores.min, scores.max)
  }
  if (seen.length === 0) return { value: null, n: 0, detail: null }
  return seen.reduce((a, b) => ((b.value as number) < (a.value as number) ? b : a))
}

/** The deviation within groups against its median over the batches before. */
function readCollapse({ figures, window, reference }: Watched): Reading {
  const before = window
    .filter(
      ({ group_std_of }) => (group_std_of ?? 0) >= MONITOR_DEFINITIONS.variance_collapse.minCount,
    )
    .flatMap(({ group_std }) => group_std ?? [])
  const usual = reference ?? (before.length < MIN_REFERENCES ? null : medianOf(before))
  const n = figures.group_std_of ?? 0
  if (figures.group_std === null || usual === null || usual === 0)
    return { value: null, n, detail: null }
  return {
    value: figures.group_std / usual,
    n,
    detail: `${round(figures.group_std)} against ${round(usual)}`,
  }
}

/** What a reading of the collapse was measured against. */
export function referenceOf({ figures }: Watched, ratio: number | null): number | null {
  return ratio === null || ratio === 0 || figures.group_std === null
    ? null
    : figures.group_std / ratio
}

/** How many scores lie at the top and at the bottom of the range that the batches before and this one span. */
function readEnds({ figures, window }: Watched): { ceiling: Reading; floor: Reading } {
  const lows = [figures.min, ...window.map(({ min }) => min)].filter((one) => one !== null)
  const highs = [figures.max, ...window.map(({ max }) => max)].filter((one) => one !== null)
  const n = figures.bin_counts.reduce((sum, count) => sum + count, 0)
  if (n === 0 || figures.min === null || figures.max === null) {
    return { ceiling: { value: null, n, detail: null }, floor: { value: null, n, detail: null } }
  }
  const low = lows.reduce((a, b) => Math.min(a, b))
  const high = highs.reduce((a, b) => Math.max(a, b))
  const end = (high - low) * END_OF_RANGE
  const range = `of ${round(low)} to ${round(high)}`
  if (low === high) {
    // One score and no other: what is above 0 is as good as it gets, as for groups that are all right or all wrong.
    const top = high > 0 ? 1 : 0
    const detail = `every score is ${round(high)}`
    return { ceiling: { value: top, n, detail }, floor: { value: 1 - top, n, detail } }
  }
  return {
    ceiling: { value: heldBy(figures, high - end, high) / n, n, detail: range },
    floor: { value: heldBy(figures, low, low + end) / n, n, detail: range },
  }
}

/** Scores from one value to another: exact where each score has its count, within a bin taken as even. */
function heldBy(figures: FigureRow, from: number, to: number): number {
  const { bin_values: values, bin_counts: counts } = figures
  // What is at the very edge counts, although it may miss it by the last bit.
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

function medianOf(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b)
  const half = sorted.length / 2
  const upper = sorted[Math.floor(half)] as number
  return Number.isInteger(half) ? (upper + (sorted[half - 1] as number)) / 2 : upper
}

function round(value: number): string {
  return String(Number(value.toPrecision(3)))
}
