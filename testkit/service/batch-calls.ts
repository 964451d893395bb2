import type { BatchSummary, ResultsColumns, SubmitResult } from '../../server/contract/trainer.ts'
import type { Sample, Submit } from './rollouts.ts'
import type { Service } from './service.ts'

/** Batch operations of tests. */
export interface BatchCalls {
  submit(samples: Sample[], fields?: Partial<Submit>): Promise<SubmitResult>
  /** Returns the summary once the batch has ended, or after 60 s. */
  ended(batchId: string): Promise<BatchSummary>
  get(batchId: string): Promise<BatchSummary>
  results(batchId: string): Promise<ResultsColumns>
}

/** Creates the calls for a test file. `common`: fields of all its batches. `service` is evaluated on first use. */
export function batchCalls(
  service: () => Service,
  common: Partial<Submit> & { run: string },
): BatchCalls {
  return {
    submit: (samples, fields) =>
      service().mutate('batches.submit', { step: 1, ...common, samples, ...fields }),
    ended: (batchId) => service().query('batches.wait', { batchId, waitMs: 60_000 }),
    get: (batchId) => service().query('batches.get', { batchId }),
    results: (batchId) => service().query('batches.results', { batchId }),
  }
}
