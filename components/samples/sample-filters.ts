import type { SampleListInput } from '../../server/wire/pages.ts'
import {
  SAMPLE_FAILURE_REASONS,
  type SampleFailureReason,
} from '../../server/wire/sample-reason.ts'
import type { SampleStatus } from '../../server/wire/trainer.ts'
import type { UrlCodec } from '../url/use-url.ts'

/** What the Samples page shows; the URL holds the same names. Null: not narrowed. */
export interface SampleView {
  run: string | null
  batch: string | null
  step: number | null
  uid: string | null
  dataSource: string | null
  status: SampleStatus | null
  reason: SampleFailureReason | null
  server: string | null
  scoreMin: number | null
  scoreMax: number | null
  sort: SampleListInput['sort']
  /** The open sample. */
  sample: string | null
  /** Chosen columns in order; null: the usual ones. */
  columns: readonly string[] | null
}

/** The states and orders to choose from. */
export const SAMPLE_STATUSES: readonly SampleStatus[] = ['queued', 'running', 'scored', 'failed']
export const SAMPLE_SORTS: readonly { value: SampleListInput['sort']; label: string }[] = [
  { value: 'newest', label: 'Newest first' },
  { value: 'worst', label: 'Worst first' },
  { value: 'best', label: 'Best first' },
  { value: 'slowest', label: 'Slowest first' },
]

function numberOf(text: string | null): number | null {
  if (text === null || text.trim() === '') return null
  const n = Number(text)
  return Number.isFinite(n) ? n : null
}

function oneOf<T extends string>(text: string | null, choices: readonly T[]): T | null {
  return choices.find((choice) => choice === text) ?? null
}

/** What cannot be read is left out, so that an old or mistyped link still opens. */
export const sampleView: UrlCodec<SampleView> = {
  parse(params) {
    const text = (name: string) => params.get(name) || null
    const batch = text('batch')
    const sample = text('sample')
    const step = numberOf(params.get('step'))
    const columns = text('columns')
    return {
      run: text('run'),
      batch: batch !== null && /^b\d{1,18}$/.test(batch) ? batch : null,
      step: step !== null && Number.isInteger(step) && step >= 0 ? step : null,
      uid: text('uid'),
      dataSource: text('dataSource'),
      status: oneOf(params.get('status'), SAMPLE_STATUSES),
      reason: oneOf(params.get('reason'), SAMPLE_FAILURE_REASONS),
      server: text('server'),
      scoreMin: numberOf(params.get('scoreMin')),
      scoreMax: numberOf(params.get('scoreMax')),
      sort:
        oneOf(
          params.get('sort'),
          SAMPLE_SORTS.map((sort) => sort.value),
        ) ?? 'newest',
      sample: sample !== null && /^b\d{1,18}-\d{1,9}$/.test(sample) ? sample : null,
      columns: columns === null ? null : columns.split(',').filter((name) => name !== ''),
    }
  },
  write(view) {
    const params = new URLSearchParams()
    const put = (name: string, value: string | number | null) => {
      if (value !== null) params.set(name, String(value))
    }
    put('run', view.run)
    put('batch', view.batch)
    put('step', view.step)
    put('uid', view.uid)
    put('dataSource', view.dataSource)
    put('status', view.status)
    put('reason', view.reason)
    put('server', view.server)
    put('scoreMin', view.scoreMin)
    put('scoreMax', view.scoreMax)
    if (view.sort !== 'newest') params.set('sort', view.sort)
    if (view.columns !== null) params.set('columns', view.columns.join(','))
    put('sample', view.sample)
    return params
  },
}

/** The filters of a view that narrow it. */
export const NO_FILTERS = {
  run: null,
  batch: null,
  step: null,
  uid: null,
  dataSource: null,
  status: null,
  reason: null,
  server: null,
  scoreMin: null,
  scoreMax: null,
} satisfies Partial<SampleView>

/** Whether anything narrows the view. */
export function isNarrowed(view: SampleView): boolean {
  return (Object.keys(NO_FILTERS) as (keyof typeof NO_FILTERS)[]).some(
    (name) => view[name] !== null,
  )
}

/** The input of `samples.list`, without its cursor. */
export function sampleListInput(view: SampleView): Omit<SampleListInput, 'cursor'> {
  const { run, batch, step, uid, dataSource, status, reason, server, scoreMin, scoreMax } = view
  const narrowed = { run, batch, step, uid, dataSource, status, reason, server, scoreMin, scoreMax }
  return {
    ...(Object.fromEntries(
      Object.entries(narrowed).filter(([, value]) => value !== null),
    ) as Partial<SampleListInput>),
    sort: view.sort,
    limit: 100,
  }
}
