import type { BatchStatus } from '../../server/wire/trainer.ts'
import type { UrlCodec } from '../url/use-url.ts'

/** What the Batches page is narrowed to; the URL holds the same names. */
export interface BatchFilters {
  run: string | null
  status: BatchStatus | null
  split: 'train' | 'val' | null
}

/** The states a batch can be in, in the order of its life. */
export const BATCH_STATUSES: readonly BatchStatus[] = [
  'open',
  'running',
  'completed',
  'cancelled',
  'failed',
]

/** Unknown values are ignored, so that an old link still opens. */
export const batchFilters: UrlCodec<BatchFilters> = {
  parse(params) {
    const status = params.get('status') as BatchStatus | null
    const split = params.get('split')
    return {
      run: params.get('run') || null,
      status: status !== null && BATCH_STATUSES.includes(status) ? status : null,
      split: split === 'train' || split === 'val' ? split : null,
    }
  },
  write(filters) {
    const params = new URLSearchParams()
    if (filters.run !== null) params.set('run', filters.run)
    if (filters.status !== null) params.set('status', filters.status)
    if (filters.split !== null) params.set('split', filters.split)
    return params
  },
}

/** The input of `batches.list`. */
export function batchListInput(filters: BatchFilters) {
  return {
    ...(filters.run === null ? {} : { run: filters.run }),
    ...(filters.status === null ? {} : { status: filters.status }),
    ...(filters.split === null ? {} : { split: filters.split }),
    limit: 50,
  }
}
