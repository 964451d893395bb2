import type { BatchStatus } from '../../server/wire/trainer.ts'
import type { UrlCodec } from '../url/use-url.ts'

/** What the Batches page is narrowed to; the URL holds the same names, the kind as `split`. */
export interface BatchFilters {
  run: string | null
  status: BatchStatus | null
  /** Training or validation rollouts as they were submitted, or older ones scored again. */
  kind: BatchKind | null
}

/** The kinds of batches that are counted apart. */
export type BatchKind = 'train' | 'val' | 'rescored'

/** Every batch. */
export const NO_FILTERS: BatchFilters = { run: null, status: null, kind: null }

const KINDS: readonly BatchKind[] = ['train', 'val', 'rescored']

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

/** The input of `batches.list`. */
export function batchListInput({ run, status, kind }: BatchFilters) {
  return {
    ...(run === null ? {} : { run }),
    ...(status === null ? {} : { status }),
    ...(kind === null
      ? {}
      : kind === 'rescored'
        ? { rescored: true }
        : { split: kind, rescored: false }),
    limit: 50,
  }
}
