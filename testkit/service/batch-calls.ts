import type { Sample, Submit } from './rollouts.ts'
import type { Service } from './service.ts'

/**
 * Returns functions that submit and read the batches of a test file. All batches have the fields `common`. Each
 * function calls `service` to get the service.
 */
export function batchCalls(service: () => Service, common: Partial<Submit> & { run: string }) {
  return {
    submit: (samples: Sample[], fields?: Partial<Submit>) =>
      service().api.batches.submit.mutate({ step: 1, ...common, samples, ...fields }),
    /** Returns the summary once the batch has ended, or after 60 s. */
    ended: (batchId: string) => service().api.batches.wait.query({ batchId, waitMs: 60_000 }),
    get: (batchId: string) => service().api.batches.get.query({ batchId }),
    results: (batchId: string) => service().api.batches.results.query({ batchId }),
  }
}
