import {
  DISAGREEMENT_MEASURES,
  type DisagreementMeasure,
  type JointCellIndex,
  MAX_COMPARED_RUNS,
} from '../../server/contract/compare.ts'
import { rangeOfText, rangeText, type StepRange } from '../runs/run-url.ts'
import type { UrlCodec } from '../url/use-url.ts'

const BANDS = ['none', 'middle', 'most'] as const
export type Band = (typeof BANDS)[number]

export interface CompareUrl {
  mode: 'batches' | 'runs'
  /** The ids of the two batches. While `second` is null, the page offers batches to select. */
  first: string | null
  second: string | null
  /** The sort measure. Null sorts by advantage if there are groups, otherwise by rank. */
  by: DisagreementMeasure | null
  signFlipped: boolean
  uid: string | null
  cell: JointCellIndex | null
  open: { first: string; second: string } | null
  /** The overlaid runs; the first is the reference. */
  runs: string[]
  hidden: string[]
  split: 'train' | 'val'
  band: Band
  /** The steps that all charts of runs show; null shows all steps. */
  zoom: StepRange | null
  log: boolean
  /** Whether the configurations also list the values that are the same in all runs. */
  allConfig: boolean
}

export interface CompareProps {
  url: CompareUrl
  onChange(change: Partial<CompareUrl>, how?: 'push' | 'replace'): void
}

const BATCH = /^b\d{1,18}$/
const CELL = /^(\d|[12]\d|3[01])-(\d|[12]\d|3[01])$/
const SAMPLE = /^b\d{1,18}-\d{1,9}$/

function batchOf(text: string | null): string | null {
  return text !== null && BATCH.test(text) ? text : null
}

function cellOf(text: string | null): JointCellIndex | null {
  const [, first, second] = CELL.exec(text ?? '') ?? []
  return first === undefined ? null : [Number(first), Number(second)]
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
      signFlipped: params.get('signFlipped') === '1',
      uid: params.get('uid'),
      cell: cellOf(params.get('cell')),
      open: SAMPLE.test(first) && SAMPLE.test(second) ? { first, second } : null,
      runs: runs.slice(0, MAX_COMPARED_RUNS),
      hidden: params.getAll('hide'),
      split: params.get('split') === 'val' ? 'val' : 'train',
      band: BANDS.find((one) => one === params.get('band')) ?? 'none',
      zoom: rangeOfText(params.get('zoom')),
      log: params.get('log') === '1',
      allConfig: params.get('config') === 'all',
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
      if (state.zoom !== null) params.set('zoom', rangeText(state.zoom))
      if (state.log) params.set('log', '1')
      if (state.allConfig) params.set('config', 'all')
      return params
    }
    if (state.first !== null) params.set('a', state.first)
    if (state.second !== null) params.set('b', state.second)
    if (state.by !== null) params.set('by', state.by)
    if (state.signFlipped) params.set('signFlipped', '1')
    if (state.uid !== null) params.set('uid', state.uid)
    if (state.cell !== null) params.set('cell', state.cell.join('-'))
    if (state.open !== null) params.set('open', `${state.open.first}~${state.open.second}`)
    return params
  },
}

export function comparePairHref(first: string, second?: string): string {
  return second === undefined ? `/compare?a=${first}` : `/compare?a=${first}&b=${second}`
}

export function compareRunsHref(
  runs: readonly string[],
  split: CompareUrl['split'] = 'train',
): string {
  const params = new URLSearchParams(runs.map((run) => ['run', run]))
  if (runs.length > 0 && split !== 'train') params.set('split', split)
  return `/compare?${runs.length === 0 ? 'of=runs' : params.toString()}`
}
