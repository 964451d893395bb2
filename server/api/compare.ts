import {
  type CompareCandidatesDto,
  CompareCandidatesInput,
  type ComparedGroupDto,
  type ComparedPage,
  type ComparedSampleDto,
  CompareGroupsInput,
  type ComparePairDto,
  ComparePairInput,
  type CompareRunsDto,
  CompareRunsInput,
  CompareSamplesInput,
} from '../wire/compare.ts'
import { procedure, router } from './trpc.ts'

/** What the procedures of `compare` call. */
export interface CompareServices {
  /** Two batches, sample by sample. */
  comparePair(input: ComparePairInput): Promise<ComparePairDto>
  /** Their samples, worst disagreement first. */
  comparedSamples(input: CompareSamplesInput): Promise<ComparedPage<ComparedSampleDto>>
  /** Their groups, those first whose order differs most. */
  comparedGroups(input: CompareGroupsInput): Promise<ComparedPage<ComparedGroupDto>>
  compareCandidates(input: CompareCandidatesInput): Promise<CompareCandidatesDto>
  /** Runs over their steps, from roll-ups. */
  compareRuns(input: CompareRunsInput): Promise<CompareRunsDto>
}

/** Two batches or up to eight runs against one another. */
export const compareRouter = router({
  pair: procedure
    .input(ComparePairInput)
    .query(({ ctx, input }) => ctx.services.comparePair(input)),
  samples: procedure
    .input(CompareSamplesInput)
    .query(({ ctx, input }) => ctx.services.comparedSamples(input)),
  groups: procedure
    .input(CompareGroupsInput)
    .query(({ ctx, input }) => ctx.services.comparedGroups(input)),
  candidates: procedure
    .input(CompareCandidatesInput.prefault({}))
    .query(({ ctx, input }) => ctx.services.compareCandidates(input)),
  runs: procedure
    .input(CompareRunsInput)
    .query(({ ctx, input }) => ctx.services.compareRuns(input)),
})
