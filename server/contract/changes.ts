import { z } from 'zod'

/** The most samples of both ranges together that are compared by group; with more, steps are the units. */
export const MAX_SAMPLES_BY_GROUP = 131_072

const step = z.int().min(0).max(2_147_483_647)
const StepRange = z
  .strictObject({ from: step, to: step })
  .refine(({ from, to }) => from <= to, { path: ['to'], message: 'must not be below from' })

/** `runs.changes`: what changed between two ranges of steps. Without ranges, the largest sudden change is chosen. */
export const ChangesInput = z
  .strictObject({
    name: z.string().min(1).max(256),
    split: z.enum(['train', 'val']).default('train'),
    before: StepRange.optional(),
    after: StepRange.optional(),
    /** Only samples of this data source. */
    dataSource: z.string().max(512).optional(),
  })
  .refine(({ before, after }) => (before === undefined) === (after === undefined), {
    path: ['after'],
    message: 'and before must be given together',
  })
export type ChangesInput = z.infer<typeof ChangesInput>

/** The lenses: each splits the whole change of the mean into parts, without a residual. */
export const LENSES = ['outcome', 'dataSource', 'component', 'prompt'] as const
export type Lens = (typeof LENSES)[number]

/** Steps of one side, with their counted samples: scored, and not substituted. */
export interface ChangeSideDto {
  from: number
  to: number
  steps: number
  batchIds: string[]
  groups: number
  samples: number
  mean: number | null
  /** In tokens; null without lengths, and for more than {@link MAX_SAMPLES_BY_GROUP} samples. */
  meanLength: number | null
  /** Pearson correlation of length and score. */
  lengthCorrelation: number | null
}

/** A contribution to the change, with its 95 % interval; null bounds: a side has fewer than two units. */
export interface ContributionDto {
  value: number
  low: number | null
  high: number | null
}

/** A class of a lens on both sides; `mean` is null without samples. */
export interface ChangePartDto {
  /** The verdict (empty: none), the data source or the component; for prompts `both`, `before` or `after`. */
  key: string
  before: { n: number; share: number; mean: number | null }
  after: { n: number; share: number; mean: number | null }
  /** By the change of its share. For components: by the change of its weight. */
  mix: ContributionDto
  /** By the change of its own mean. */
  within: ContributionDto
  total: ContributionDto
}

/** A lens. Its parts add up to the change; the largest contribution is first. */
export interface LensDto {
  lens: Lens
  parts: ChangePartDto[]
  /** The sum of all mix parts. */
  mix: ContributionDto
  /** Why there are no parts; null: there are. */
  missing: string | null
}

/** A prompt of both sides. */
export interface ChangedPromptDto {
  /** One of its groups after the change. */
  batchId: string
  uid: string
  before: number
  after: number
  /** Its part of the change. */
  contribution: number
}

/** `runs.changes`. */
export interface ChangesDto {
  /** `given`: by the caller. `largest`: the largest sudden change. `latest`: no step stands out, so the latest ones. */
  chosen: 'given' | 'largest' | 'latest'
  before: ChangeSideDto
  after: ChangeSideDto
  /** The change of the mean; null if a side has no counted sample. */
  change: ContributionDto | null
  /** What the intervals draw again: groups, or steps of long ranges. */
  unit: 'group' | 'step'
  lenses: LensDto[]
  /** The part that explains most; null: nothing stands out. */
  standsOut: { lens: Lens; key: string; by: 'mix' | 'within' | 'total' } | null
  /** Samples outside the mean, by failure reason or `substituted`. */
  excluded: { reason: string; before: number; after: number }[]
  /** Prompts of both sides with the largest contributions. */
  prompts: ChangedPromptDto[]
  /** The reward differs between both sides. */
  rewardChanged: boolean
  /** All data sources of both sides, for the filter. */
  dataSources: string[]
}
