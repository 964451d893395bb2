import { MAX_VISITS, type PromptClass, RECENT_VISITS } from './contract/prompts.ts'

/** A change is clear if twice its log likelihood ratio is at least this (p = 1e-6 by chance in one comparison). */
const CLEAR_CHANGE = 24
const CHANGED_RATE = 0.25
/** Smallest change of the mean reward-model score that counts, in standard deviations of the prompt's scores. */
const CHANGED_DEVIATIONS = 0.5
/**
 * Standard normal quantile above which visits differ by more than chance; one prompt in a million exceeds it by chance.
 */
const CLEAR_SPREAD = 4.75
const SEARCHED = 64

/** One visit to a prompt: a group of samples that was generated for the prompt in one batch. */
export interface Visit {
  step: number
  batchId: number
  group: number
  /** Samples with a counted score, at least one. */
  scored: number
  /** Number of passed samples; null if only reward models score. */
  passed: number | null
  mean: number
  /** Sample standard deviation of the scores (divisor n − 1); 0 for one sample. */
  std: number
}

export interface PromptFigures {
  class: PromptClass
  scored: number
  passed: number | null
  mean: number
  recentScored: number
  recentPassed: number | null
  recentMean: number
  change: number | null
  /** Number of visits whose samples did not all get the same score. */
  varied: number
  lastStep: number
}

/** Adds visits to the stored ones; a visit of the same group replaces the stored one. Keeps the newest 256. */
export function mergeVisits(stored: readonly Visit[], added: readonly Visit[]): Visit[] {
  const isAdded = new Set(added.map(({ batchId, group }) => `${batchId}/${group}`))
  return [...stored.filter(({ batchId, group }) => !isAdded.has(`${batchId}/${group}`)), ...added]
    .sort((a, b) => a.step - b.step || a.batchId - b.batchId || a.group - b.group)
    .slice(-MAX_VISITS)
}

/** Computes the figures of a prompt from its visits: at least one, oldest first. */
export function figuresOf(visits: readonly Visit[]): PromptFigures {
  const all = sumOf(visits)
  const recent = sumOf(visits.slice(-RECENT_VISITS))
  return {
    class: classOf(visits),
    scored: all.n,
    passed: all.passed,
    mean: all.sum / all.n,
    recentScored: recent.n,
    recentPassed: recent.passed,
    recentMean: recent.sum / recent.n,
    change: recentChange(comparable(visits)),
    varied: visits.filter(({ std }) => std > 0).length,
    lastStep: (visits.at(-1) as Visit).step,
  }
}

function recentChange(visits: readonly Visit[]): number | null {
  if (visits.length <= RECENT_VISITS) return null
  return (
    rateOf(sumOf(visits.slice(-RECENT_VISITS))) - rateOf(sumOf(visits.slice(0, -RECENT_VISITS)))
  )
}

/**
 * Sets `passed` to null for all visits if it is null for any, because a pass rate cannot be compared with a mean score.
 */
function comparable(visits: readonly Visit[]): readonly Visit[] {
  if (visits.every(({ passed }) => passed !== null)) return visits
  return visits.map((visit) => ({ ...visit, passed: null }))
}

/** The class of a prompt, as {@link PROMPT_CLASS_TEXT} defines it. */
export function classOf(visits: readonly Visit[]): PromptClass {
  const { passed } = sumOf(visits)
  const recent = sumOf(visits.slice(-RECENT_VISITS))
  if (passed === 0) return 'unsolved'
  if (passed !== null && recent.passed === recent.n) return 'solved'
  const searched = comparable(visits.slice(-SEARCHED))
  const change = lastChange(searched)
  if (change !== null) return change < 0 ? 'regressed' : 'learning'
  if (isScattered(searched)) return 'flapping'
  const neverVaried = visits.length >= 2 && visits.every(({ std }) => std === 0)
  return neverVaried && visits.some(({ scored }) => scored > 1) ? 'never_varied' : 'mixed'
}

/** Sums over visits. `passed` is null if it is null for any visit; the rate is then the mean score. */
interface Sums {
  n: number
  passed: number | null
  sum: number
  squares: number
}

const NONE: Sums = { n: 0, passed: 0, sum: 0, squares: 0 }

function added(sums: Sums, { scored, passed, mean, std }: Visit): Sums {
  return {
    n: sums.n + scored,
    passed: sums.passed === null || passed === null ? null : sums.passed + passed,
    sum: sums.sum + scored * mean,
    squares: sums.squares + scored * mean * mean + (scored - 1) * std * std,
  }
}

function sumOf(visits: readonly Visit[]): Sums {
  return visits.reduce(added, NONE)
}

function rateOf({ n, passed, sum }: Sums): number {
  return (passed ?? sum) / n
}

/**
 * Returns the last clear change of the rate (the rate after it minus the rate before it), or null if there is none. For
 * each visit, the visits from it to the last one are compared with the 2, 4, 8 … visits before it, and with all visits
 * before it.
 */
function lastChange(visits: readonly Visit[]): number | null {
  const upTo: Sums[] = [NONE]
  for (const visit of visits) upTo.push(added(upTo.at(-1) as Sums, visit))
  const between = (from: number, to: number) => difference(upTo[to] as Sums, upTo[from] as Sums)
  const deviation = deviationOf(upTo.at(-1) as Sums)
  /** The clearest change in each direction. */
  const clearest = [
    { at: 0, ratio: CLEAR_CHANGE, change: 0 },
    { at: 0, ratio: CLEAR_CHANGE, change: 0 },
  ] as const
  for (let at = 1; at < visits.length; at++) {
    const after = between(at, visits.length)
    for (let length = 2; ; length *= 2) {
      const before = between(Math.max(0, at - length), at)
      const change = rateOf(after) - rateOf(before)
      const isLarge =
        after.passed === null || before.passed === null
          ? Math.abs(change) >= CHANGED_DEVIATIONS * deviation
          : Math.abs(change) >= CHANGED_RATE
      const best = clearest[change < 0 ? 0 : 1] as { at: number; ratio: number; change: number }
      const ratio = isLarge ? likelihoodRatio(before, after) : 0
      if (ratio >= best.ratio) Object.assign(best, { at, ratio, change })
      if (length >= at) break
    }
  }
  const [fall, rise] = clearest
  if (fall.at === 0 && rise.at === 0) return null
  return fall.at >= rise.at ? fall.change : rise.change
}

/** Twice the log likelihood ratio of two rates against one common rate. */
function likelihoodRatio(before: Sums, after: Sums): number {
  if (before.passed !== null && after.passed !== null) {
    return (
      2 *
      (logLikelihood(before.n, before.passed) +
        logLikelihood(after.n, after.passed) -
        logLikelihood(before.n + after.n, before.passed + after.passed))
    )
  }
  const n = before.n + after.n
  const apart = residuals(before) + residuals(after)
  const together = residuals({
    n,
    passed: null,
    sum: before.sum + after.sum,
    squares: before.squares + after.squares,
  })
  if (together <= 0) return 0
  // The factor is n − 3, because the variance is also estimated and two means often fit few samples well by chance. If
  // each side had only equal scores, the ratio would be infinite, so at least a thousandth of the spread counts as
  // noise.
  return Math.max(0, n - 3) * Math.log(together / Math.max(apart, together * 1e-6))
}

function logLikelihood(n: number, passed: number): number {
  return xLogX(passed) + xLogX(n - passed) - xLogX(n)
}

function xLogX(x: number): number {
  return x === 0 ? 0 : x * Math.log(x)
}

function residuals({ n, sum, squares }: Sums): number {
  return n === 0 ? 0 : Math.max(0, squares - (sum * sum) / n)
}

function deviationOf(sums: Sums): number {
  return sums.n < 2 ? 0 : Math.sqrt(residuals(sums) / (sums.n - 1))
}

function difference(whole: Sums, part: Sums): Sums {
  return {
    n: whole.n - part.n,
    passed: whole.passed === null || part.passed === null ? null : whole.passed - part.passed,
    sum: whole.sum - part.sum,
    squares: whole.squares - part.squares,
  }
}

/** Whether the visits' rates differ by more than chance: a χ² test with Wilson and Hilferty's normal approximation. */
function isScattered(visits: readonly Visit[]): boolean {
  const all = sumOf(visits)
  const rate = rateOf(all)
  let within = 0
  let withinOf = 0
  let between = 0
  for (const visit of visits) {
    const own = sumOf([visit])
    between += own.n * (rateOf(own) - rate) ** 2
    within += residuals(own)
    withinOf += own.n - 1
  }
  const variance =
    all.passed === null ? (withinOf === 0 ? 0 : within / withinOf) : rate * (1 - rate)
  const freedom = visits.length - 1
  if (freedom < 2 || variance <= 0) return false
  const spread = 2 / (9 * freedom)
  return (Math.cbrt(between / variance / freedom) - (1 - spread)) / Math.sqrt(spread) > CLEAR_SPREAD
}
