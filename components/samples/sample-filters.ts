import type { SampleListInput } from '../../server/wire/pages.ts'
import {
  narrows,
  readSampleFilter,
  type SampleFilter,
  type UnreadFilter,
  writeSampleFilter,
} from '../../server/wire/sample-filter.ts'
import type { SampleStatus } from '../../server/wire/trainer.ts'
import type { UrlCodec } from '../url/use-url.ts'

/** What the Samples page shows; the URL holds the same names. */
export interface SampleView {
  /** Which samples; the same filter as the export's and the command line's. */
  filter: SampleFilter
  sort: SampleListInput['sort']
  /** The open sample. */
  sample: string | null
  /** Chosen columns in order; null: the usual ones. */
  columns: readonly ChosenColumn[] | null
  /** The saved view that this came from. */
  view: number | null
  /** What of the address could not be read: shown, and gone with the next change. */
  unread: readonly UnreadFilter[]
}

/** A column that was chosen; `px`: as wide as somebody drew it. */
export interface ChosenColumn {
  name: string
  px: number | null
}

/** The states and orders to choose from. */
export const SAMPLE_STATUSES: readonly SampleStatus[] = ['queued', 'running', 'scored', 'failed']
export const SAMPLE_SORTS: readonly { value: SampleListInput['sort']; label: string }[] = [
  { value: 'newest', label: 'Newest first' },
  { value: 'worst', label: 'Worst first' },
  { value: 'best', label: 'Best first' },
  { value: 'slowest', label: 'Slowest first' },
]

/** The narrowest and widest that a column may be drawn, pixels. */
export const COLUMN_PX = { least: 48, most: 900 }

/** What cannot be read is left out and told, so that an old or mistyped link still opens. */
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

/** What a saved view keeps: filters, order and columns; not the sample that is open. */
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

function columnsOf(text: string): ChosenColumn[] {
  return text
    .split(',')
    .filter((name) => name !== '')
    .map((written) => {
      const [, name = '', px] = /^(.*?)(?:~(\d{1,4}))?$/.exec(written) ?? []
      const { least, most } = COLUMN_PX
      return {
        name: name.replaceAll('%7E', '~').replaceAll('%2C', ',').replaceAll('%25', '%'),
        px: px === undefined ? null : Math.max(least, Math.min(most, Number(px))),
      }
    })
}

/** Whether anything narrows the view. */
export function isNarrowed(view: Pick<SampleView, 'filter'>): boolean {
  return narrows(view.filter)
}

/** A filter with some of it changed; undefined takes a condition away. */
export function narrowed(filter: SampleFilter, change: Partial<SampleFilter>): SampleFilter {
  return Object.fromEntries(
    Object.entries({ ...filter, ...change }).filter(
      ([, value]) => value !== undefined && !(Array.isArray(value) && value.length === 0),
    ),
  )
}

/** The input of `samples.list`, without its cursor. */
export function sampleListInput(view: SampleView): Omit<SampleListInput, 'cursor'> {
  return { ...view.filter, sort: view.sort, limit: 100 }
}
