import type { UrlCodec } from '../url/use-url.ts'

/** Other runs over the one that is looked at, at most: as many as there are hues. */
export const MOST_OVERLAYS = 7

/** What is looked at of a run. */
export interface RunUrl {
  split: 'train' | 'val'
  /** Other runs whose means are drawn over it. */
  over: string[]
  /** The fan from the least to the greatest score. */
  range: boolean
  /** The form of a mark: `new`, a mark's id, or null. */
  mark: string | null
}

export const runUrl: UrlCodec<RunUrl> = {
  parse: (params) => ({
    split: params.get('split') === 'val' ? 'val' : 'train',
    over: params.getAll('over').slice(0, MOST_OVERLAYS),
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
