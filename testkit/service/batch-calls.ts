import type { BatchSummary, ResultsColumns, SubmitResult } from '../../server/contract/trainer.ts'
import type { Sample, Submit } from './rollouts.ts'
import type { Service } from './service.ts'

/** What a test does with batches. */
export interface BatchCalls {
  submit(samples: Sample[], fields?: Partial<Submit>): Promise<SubmitResult>
  /** The summary when the batch has ended; after 60 s as it is then. */
  ended(batchId: string): Promise<BatchSummary>
  get(batchId: string): Promise<BatchSummary>
  results(batchId: string): Promise<ResultsColumns>
}

/** The calls of a test file; `common`: what its batches have in common. `service` is asked for when it is there. */
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
