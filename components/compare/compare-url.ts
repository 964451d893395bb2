import {
  DISAGREEMENT_MEASURES,
  type DisagreementMeasure,
  MOST_COMPARED_RUNS,
} from '../../server/wire/compare.ts'
import type { UrlCodec } from '../url/use-url.ts'

/** Which scores of a step are drawn as a band around its mean. */
export const BANDS = ['none', 'middle', 'most'] as const
export type Band = (typeof BANDS)[number]

/** What is compared, and how it is looked at. */
export interface CompareUrl {
  mode: 'batches' | 'runs'
  /** The two batches; the first alone: its partner is being chosen. */
  first: string | null
  second: string | null
  /** Null: by advantages where there are groups, else by rank. */
  by: DisagreementMeasure | null
  flipped: boolean
  /** Samples of this group alone. */
  uid: string | null
  /** The sample that is open, in both batches. */
  open: { first: string; second: string } | null
  /** Runs over one another; the first is what the others are held against. */
  runs: string[]
  /** Of the runs, those whose lines are put away. */
  hidden: string[]
  split: 'train' | 'val'
  band: Band
}

const BATCH = /^b\d{1,18}$/
const SAMPLE = /^b\d{1,18}-\d{1,9}$/

function batchOf(text: string | null): string | null {
  return text !== null && BATCH.test(text) ? text : null
}

export const compareUrl: UrlCodec<CompareUrl> = {
  parse(params) {
    const runs = [...new Set(params.getAll('run').filter((run) => run !== ''))]
    const [first = '', second = ''] = (params.get('open') ?? '').split('~')
    return {
      mode: runs.length > 0 || params.get('of') === 'runs' ? 'runs' : 'batches',
      first: batchOf(params.get('a')),
      second: params.get('b') === params.get('a') ? null : batchOf(params.get('b')),
      by: DISAGREEMENT_MEASURES.find((one) => one === params.get('by')) ?? null,
      flipped: params.get('flipped') === '1',
      uid: params.get('uid'),
      open: SAMPLE.test(first) && SAMPLE.test(second) ? { first, second } : null,
      runs: runs.slice(0, MOST_COMPARED_RUNS),
      hidden: params.getAll('hide'),
      split: params.get('split') === 'val' ? 'val' : 'train',
      band: BANDS.find((one) => one === params.get('band')) ?? 'none',
    }
  },
  write(state) {
    const params = new URLSearchParams()
    if (state.mode === 'runs') {
      if (state.runs.length === 0) params.set('of', 'runs')
      for (const run of state.runs) params.append('run', run)
      for (const run of state.hidden) if (state.runs.includes(run)) params.append('hide', run)
      if (state.split !== 'train') params.set('split', state.split)
      if (state.band !== 'none') params.set('band', state.band)
      return params
    }
    if (state.first !== null) params.set('a', state.first)
    if (state.second !== null) params.set('b', state.second)
    if (state.by !== null) params.set('by', state.by)
    if (state.flipped) params.set('flipped', '1')
    if (state.uid !== null) params.set('uid', state.uid)
    if (state.open !== null) params.set('open', `${state.open.first}~${state.open.second}`)
    return params
  },
}

/** The comparison of two batches; without a second one, the choice of it. */
export function comparePairHref(first: string, second?: string): string {
  return second === undefined ? `/compare?a=${first}` : `/compare?a=${first}&b=${second}`
}

/** Runs over one another. */
export function compareRunsHref(runs: readonly string[]): string {
  const params = new URLSearchParams(runs.map((run) => ['run', run]))
  return `/compare?${runs.length === 0 ? 'of=runs' : params.toString()}`
}
