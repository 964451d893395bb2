import {
  CompareCandidatesInput,
  CompareGroupsInput,
  ComparePairInput,
  CompareRunsInput,
  CompareSamplesInput,
} from '../contract/compare.ts'
import type { RunFields } from './procedure-meta.ts'
import { procedure, router } from './trpc.ts'

const byPair: RunFields = { batches: ['first', 'second'] }

/** Comparisons of two batches or of up to eight runs. */
export const compareRouter = router({
  /**
   * Compares two batches sample by sample.
   * @throws batch_not_found, comparison_too_large, busy
   * @example {"first": "b12", "second": "b14"}
   */
  pair: procedure
    .meta({ runFields: byPair })
    .input(ComparePairInput)
    .query(({ ctx, input }) => ctx.comparedBatches.pair(input)),
  /**
   * Lists the samples of both batches, strongest disagreement first.
   * @throws batch_not_found, comparison_too_large, busy
   * @example {"first": "b12", "second": "b14", "by": "rank"}
   */
  samples: procedure
    .meta({ runFields: byPair })
    .input(CompareSamplesInput)
    .query(({ ctx, input }) => ctx.comparedBatches.samples(input)),
  /**
   * Lists the groups of both batches, lowest Kendall τ first.
   * @throws batch_not_found, comparison_too_large, busy
   * @example {"first": "b12", "second": "b14"}
   */
  groups: procedure
    .meta({ runFields: byPair })
    .input(CompareGroupsInput)
    .query(({ ctx, input }) => ctx.comparedBatches.groups(input)),
  /**
   * Lists the batches that a batch can be compared with. Without a batch, it lists the newest rescores with their
   * sources.
   * @throws batch_not_found
   * @example {"batchId": "b12"}
   */
  candidates: procedure
    .input(CompareCandidatesInput.prefault({}))
    .query(({ ctx, input }) => ctx.comparedBatches.candidates(input)),
  /**
   * Compares up to eight runs step by step, each with the first one. Each difference has a 95 % confidence interval.
   * @example {"runs": ["gsm8k-grpo", "gsm8k-dapo"]}
   */
  runs: procedure
    .meta({ runFields: { runs: ['runs'] } })
    .input(CompareRunsInput)
    .query(({ ctx, input }) => ctx.comparedRuns.get(input)),
})
