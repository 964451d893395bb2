import { DIMENSIONS, type Dimension, OTHERS } from '../../server/contract/changes.ts'
import { MAX_STEP } from '../../server/contract/fields.ts'
import { RECENT_STEPS, type RunDto } from '../../server/contract/runs.ts'
import { type SampleFilter, writeSampleFilter } from '../../server/contract/sample-filter.ts'
import type { XAxisBy } from '../charts/step-axis.ts'
import type { UrlCodec } from '../url/use-url.ts'

/** The maximum number of overlaid runs, limited by the number of hues. */
export const MAX_OVERLAYS = 7

export const SMOOTHINGS = [0, 0.6, 0.9, 0.97] as const

export interface RunUrl {
  split: 'train' | 'val'
  over: string[]
  /** Whether the scale spans the minimum to the maximum score. */
  range: boolean
  /** The weight of earlier steps in the smoothed mean; 0 does not smooth. */
  smoothing: number
  x: XAxisBy
  log: boolean
  /** The steps that all charts show; null shows all steps. */
  zoom: StepRange | null
  /** The mark in the form: `new`, an ID, or null if the form is closed. */
  mark: string | null
  /** The compared ranges of steps, `9-10` in the URL. Null compares the ranges around the largest sudden change. */
  before: StepRange | null
  after: StepRange | null
  /** The dimension of the comparison. Null selects the dimension that explains most of the change. */
  dimension: Dimension | null
  /** The data source of the comparison; null compares all. */
  source: string | null
}

/** A range of steps, both ends included. */
export interface StepRange {
  from: number
  to: number
}

export const runUrl: UrlCodec<RunUrl> = {
  parse: (params) => ({
    split: params.get('split') === 'val' ? 'val' : 'train',
    over: params.getAll('over').slice(0, MAX_OVERLAYS),
    range: params.get('range') === '1',
    smoothing: SMOOTHINGS.find((weight) => String(weight) === params.get('smooth')) ?? 0,
    x: params.get('x') === 'time' ? 'time' : 'step',
    log: params.get('log') === '1',
    zoom: rangeOfText(params.get('zoom')),
    mark: params.get('mark'),
    ...rangesOf(params),
    dimension: DIMENSIONS.find((dimension) => dimension === params.get('by')) ?? null,
    source: params.get('source'),
  }),
  write({ split, over, range, smoothing, x, log, zoom, mark, before, after, dimension, source }) {
    const params = new URLSearchParams()
    if (split !== 'train') params.set('split', split)
    for (const name of over) params.append('over', name)
    if (range) params.set('range', '1')
    if (smoothing > 0) params.set('smooth', String(smoothing))
    if (x !== 'step') params.set('x', x)
    if (log) params.set('log', '1')
    if (zoom !== null) params.set('zoom', rangeText(zoom))
    if (mark !== null) params.set('mark', mark)
    if (before !== null) params.set('before', rangeText(before))
    if (after !== null) params.set('after', rangeText(after))
    if (dimension !== null) params.set('by', dimension)
    if (source !== null) params.set('source', source)
    return params
  },
}

/** Writes a range as it is typed: `9`, or `9-10`. */
export function rangeText({ from, to }: StepRange): string {
  return from === to ? String(from) : `${from}-${to}`
}

/** Reads a typed range; null if it is invalid. */
export function rangeOfText(text: string | null): StepRange | null {
  const [, from, to] = /^\s*(\d{1,10})(?:\s*[-–]\s*(\d{1,10}))?\s*$/.exec(text ?? '') ?? []
  if (from === undefined) return null
  const ends = [Number(from), Number(to ?? from)]
  const range = { from: Math.min(...ends), to: Math.max(...ends) }
  return range.to <= MAX_STEP ? range : null
}

/** The message for an invalid typed range; null for a valid range and for an empty field. */
export function rangeProblem(text: string | null): string | null {
  return text === null || rangeOfText(text) !== null ? null : 'For example: 9 or 9-10'
}

/** Reads the two ranges. If one is missing or invalid, both are null. */
function rangesOf(params: URLSearchParams): Pick<RunUrl, 'before' | 'after'> {
  const [before, after] = ['before', 'after'].map((name) => rangeOfText(params.get(name)))
  return before && after ? { before, after } : { before: null, after: null }
}

/** The URL of the samples of a run, without rescored ones. */
export function runSamplesHref(
  { name, split }: { name: string; split?: RunUrl['split'] | null },
  filter: SampleFilter = {},
): string {
  const ofRun = { run: name, ...(split && { split }), rescored: false }
  return `/samples?${writeSampleFilter({ ...ofRun, ...filter })}`
}

/**
 * The sample filter for `key`, a value of the compared dimension, within the compared data source. Null if no filter
 * selects this value.
 */
export function partFilter(
  dimension: Dimension,
  key: string,
  source: string | null,
): SampleFilter | null {
  const ofSource = source === null ? {} : { dataSource: source }
  if (dimension === 'component') return ofSource
  if (dimension === 'prompt' || key === '' || key === OTHERS) return null
  return dimension === 'outcome'
    ? { ...ofSource, verdict: key }
    : { dataSource: key, status: 'scored' }
}

export function inRange<T extends { step: number }>(
  points: readonly T[],
  zoom: StepRange | null,
): T[] {
  return points.filter(({ step }) => zoom === null || (step >= zoom.from && step <= zoom.to))
}

/** Whether a range starts before the first of the loaded points, so that older points must be loaded. */
export function startsBefore(zoom: StepRange | null, points: readonly { step: number }[]): boolean {
  return zoom !== null && points.every(({ step }) => zoom.from < step)
}

/** Whether steps of a run come in bins, so that a zoom needs finer points from the service. */
export function isBinned({ steps }: Pick<RunDto, 'steps'>): boolean {
  return steps.some(({ bin }) => bin !== null)
}

/** A run reduced to the zoomed steps, and to the bins that contain some of them. */
export function zoomed(run: RunDto, zoom: StepRange | null): RunDto {
  if (zoom === null) return run
  const steps = run.steps.filter(
    ({ step, bin }) => step <= zoom.to && (bin?.last ?? step) >= zoom.from,
  )
  if (steps.length === 0) return run
  const shown = new Set(steps.map(({ step }) => step))
  const isIn = ({ step }: { step: number }) => shown.has(step)
  return {
    ...run,
    steps,
    recent: isBinned(run) ? run.recent : steps.slice(-RECENT_STEPS),
    sources: run.sources
      .map((source) => ({ ...source, points: source.points.filter(isIn) }))
      .filter(({ points }) => points.length > 0),
    heat: run.heat && { ...run.heat, steps: run.heat.steps.filter(isIn) },
  }
}

/** The URL state that compares a range with the same number of steps before it; null if either range has no steps. */
export function againstBefore(
  { steps }: Pick<RunDto, 'steps'>,
  after: StepRange,
): Pick<RunUrl, 'before' | 'after' | 'dimension'> | null {
  const lastOf = ({ step, bin }: (typeof steps)[number]) => bin?.last ?? step
  const n = steps.filter((one) => one.step <= after.to && lastOf(one) >= after.from).length
  const earlier = steps.filter(({ step }) => step < after.from)
  // For an empty range (n is 0), slice(-n) would return all earlier steps.
  const before = earlier.slice(Math.max(0, earlier.length - n))
  const [first, newest] = [before[0], before.at(-1)]
  if (first === undefined || newest === undefined) return null
  const from = first.step
  // The newest earlier bin can extend into `after`, so its last step is limited.
  const to = Math.min(lastOf(newest), after.from - 1)
  return { before: { from, to }, after, dimension: null }
}
