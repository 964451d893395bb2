import type { BatchStatus } from '../../server/contract/trainer.ts'
import type { UrlCodec } from '../url/use-url.ts'

/** The filters of the Batches page. The URL parameters have the same names, except `split` for `kind`. */
export interface BatchFilters {
  run: string | null
  /** `active`: open or running. */
  status: BatchStatus | 'active' | null
  /** `train` and `val` exclude rescored batches. */
  kind: BatchKind | null
}

type BatchKind = 'train' | 'val' | 'rescored'

export const NO_FILTERS: BatchFilters = { run: null, status: null, kind: null }

const KINDS: readonly BatchKind[] = ['train', 'val', 'rescored']

export const BATCH_STATUSES: readonly NonNullable<BatchFilters['status']>[] = [
  'active',
  'open',
  'running',
  'completed',
  'cancelled',
  'failed',
]

/** Parses the filters. Unknown values are ignored, so that old links still open. */
export const batchFilters: UrlCodec<BatchFilters> = {
  parse(params) {
    const status = params.get('status') as BatchFilters['status']
    const kind = params.get('split') as BatchKind | null
    return {
      run: params.get('run') || null,
      status: status !== null && BATCH_STATUSES.includes(status) ? status : null,
      kind: kind !== null && KINDS.includes(kind) ? kind : null,
    }
  },
  write(filters) {
    const params = new URLSearchParams()
    if (filters.run !== null) params.set('run', filters.run)
    if (filters.status !== null) params.set('status', filters.status)
    if (filters.kind !== null) params.set('split', filters.kind)
    return params
  },
}

export function batchListInput({ run, status, kind }: BatchFilters) {
  return {
    ...(run === null ? {} : { run }),
    ...(status === null ? {} : status === 'active' ? { ended: false } : { status }),
    ...(kind === null
      ? {}
      : kind === 'rescored'
        ? { rescored: true }
        : { split: kind, rescored: false }),
    limit: 50,
  }
}
