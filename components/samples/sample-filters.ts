import type { SampleListInput } from '../../server/contract/pages.ts'
import {
  narrows,
  readSampleFilter,
  SAMPLE_FILTER_NAMES,
  type SampleFilter,
  type UnreadFilter,
  writeSampleFilter,
} from '../../server/contract/sample-filter.ts'
import type { SampleStatus } from '../../server/contract/trainer.ts'
import type { UrlCodec } from '../url/use-url.ts'

export interface SampleView {
  /** The sample filter, shared with the export and the CLI. */
  filter: SampleFilter
  sort: SampleListInput['sort']
  sample: string | null
  /** The selected columns in order; null shows the default columns. */
  columns: readonly ChosenColumn[] | null
  view: number | null
  /** Invalid URL parameters, shown until the next change. */
  unread: readonly UnreadFilter[]
}

/** A selected column. `px` is its width if the user resized it. */
export interface ChosenColumn {
  name: string
  px: number | null
}

export const SAMPLE_STATUSES: readonly SampleStatus[] = ['queued', 'running', 'scored', 'failed']
export const SAMPLE_SORTS: readonly { value: SampleListInput['sort']; label: string }[] = [
  { value: 'newest', label: 'Newest first' },
  { value: 'worst', label: 'Lowest score first' },
  { value: 'best', label: 'Highest score first' },
  { value: 'slowest', label: 'Slowest first' },
]

export const COLUMN_PX = { min: 48, max: 900 }

/** Invalid parameters are ignored with a notice, so that old links still open. */
export const sampleView: UrlCodec<SampleView> = {
  parse(params) {
    const { filter, unread } = readSampleFilter(params)
    const sample = params.get('sample')
    const columns = params.get('columns')
    const view = params.get('view')
    return {
      filter,
      unread,
      sort: SAMPLE_SORTS.find(({ value }) => value === params.get('sort'))?.value ?? 'newest',
      sample: sample !== null && /^b\d{1,18}-\d{1,9}$/.test(sample) ? sample : null,
      columns: columns ? columnsOf(columns) : null,
      view: view !== null && /^\d{1,9}$/.test(view) ? Number(view) : null,
    }
  },
  write(view) {
    const params = stateOf(view)
    if (view.sample !== null) params.set('sample', view.sample)
    if (view.view !== null) params.set('view', String(view.view))
    return params
  },
}

/** The part of the state that a saved view stores: filters, sort and columns. */
export function stateOf(view: Pick<SampleView, 'filter' | 'sort' | 'columns'>): URLSearchParams {
  const params = writeSampleFilter(view.filter)
  if (view.sort !== 'newest') params.set('sort', view.sort)
  if (view.columns !== null) {
    params.set(
      'columns',
      view.columns
        .map(({ name, px }) => {
          const written = name.replaceAll('%', '%25').replaceAll(',', '%2C').replaceAll('~', '%7E')
          return px === null ? written : `${written}~${px}`
        })
        .join(','),
    )
  }
  return params
}

/** A parameter that this version cannot read. */
export interface UnreadParam {
  name: string
  value: string
  /** The problem, to be printed after the name. */
  message: string
}

const VIEW_PARAMS: ReadonlySet<string> = new Set([
  ...SAMPLE_FILTER_NAMES,
  ...['sort', 'columns', 'sample', 'view'],
])

/** The parameters of a saved state that are invalid, or unknown because a later version saved them. */
export function unreadOfSaved(state: string): UnreadParam[] {
  const params = new URLSearchParams(state)
  const sort = params.get('sort')
  const unknown = { message: 'is unknown to this version' }
  return [
    ...readSampleFilter(params).unread,
    ...(sort === null || SAMPLE_SORTS.some(({ value }) => value === sort)
      ? []
      : [{ name: 'sort', value: sort, ...unknown }]),
    ...[...params].flatMap(([name, value]) =>
      VIEW_PARAMS.has(name) ? [] : { name, value, ...unknown },
    ),
  ]
}

/**
 * The state of a changed view. Parameters of the `saved` state that this version cannot read are kept, unless the view
 * has a value for them.
 */
export function changedState(view: SampleView, saved: string): URLSearchParams {
  const state = stateOf(view)
  const written = new Set(state.keys())
  for (const { name, value } of unreadOfSaved(saved)) {
    if (name === 'extra' || !written.has(name)) state.append(name, value)
  }
  return state
}

function columnsOf(text: string): ChosenColumn[] {
  return text
    .split(',')
    .filter((name) => name !== '')
    .map((written) => {
      const [, name = '', px] = /^(.*?)(?:~(\d{1,4}))?$/.exec(written) ?? []
      const { min, max } = COLUMN_PX
      return {
        name: name.replaceAll('%7E', '~').replaceAll('%2C', ',').replaceAll('%25', '%'),
        px: px === undefined ? null : Math.max(min, Math.min(max, Number(px))),
      }
    })
}

export function isNarrowed(view: Pick<SampleView, 'filter'>): boolean {
  return narrows(view.filter)
}

/** Updates a filter; undefined removes a condition. */
export function narrowed(filter: SampleFilter, change: Partial<SampleFilter>): SampleFilter {
  return Object.fromEntries(
    Object.entries({ ...filter, ...change }).filter(
      ([, value]) => value !== undefined && !(Array.isArray(value) && value.length === 0),
    ),
  )
}

export function sampleListInput(view: SampleView): Omit<SampleListInput, 'cursor'> {
  return { ...view.filter, sort: view.sort, limit: 100 }
}
