import type { UrlCodec } from '../url/use-url.ts'

/** The maximum number of overlaid runs, limited by the number of hues. */
export const MAX_OVERLAYS = 7

/** The URL state of a run page. */
export interface RunUrl {
  split: 'train' | 'val'
  /** Overlaid runs. */
  over: string[]
  /** Scale from the minimum to the maximum score. */
  range: boolean
  /** The mark form: `new`, the ID of a mark, or null. */
  mark: string | null
}

export const runUrl: UrlCodec<RunUrl> = {
  parse: (params) => ({
    split: params.get('split') === 'val' ? 'val' : 'train',
    over: params.getAll('over').slice(0, MAX_OVERLAYS),
    range: params.get('range') === '1',
    mark: params.get('mark'),
  }),
  write({ split, over, range, mark }) {
    const params = new URLSearchParams()
    if (split !== 'train') params.set('split', split)
    for (const name of over) params.append('over', name)
    if (range) params.set('range', '1')
    if (mark !== null) params.set('mark', mark)
    return params
  },
}
