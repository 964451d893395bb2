import {
  CompareCandidatesInput,
  CompareGroupsInput,
  ComparePairInput,
  CompareRunsInput,
  CompareSamplesInput,
} from '../contract/compare.ts'
import { procedure, router } from './trpc.ts'

/** Two batches or up to eight runs against one another. */
export const compareRouter = router({
  pair: procedure
    .input(ComparePairInput)
    .query(({ ctx, input }) => ctx.comparedBatches.pair(input)),
  samples: procedure
    .input(CompareSamplesInput)
    .query(({ ctx, input }) => ctx.comparedBatches.samples(input)),
  groups: procedure
    .input(CompareGroupsInput)
    .query(({ ctx, input }) => ctx.comparedBatches.groups(input)),
  candidates: procedure
    .input(CompareCandidatesInput.prefault({}))
    .query(({ ctx, input }) => ctx.comparedBatches.candidates(input)),
  runs: procedure.input(CompareRunsInput).query(({ ctx, input }) => ctx.comparedRuns.get(input)),
})
