import { z } from 'zod'
import { Cursor, RunName, stepRange, storableText } from './fields.ts'

/**
 * Prompts of a run over its steps. A prompt is recognized by the `promptId` that the trainer sends, or else by its data
 * source and its text. A visit is one group of the prompt, in one step.
 */

/** Maximum number of visits kept per prompt; older ones are dropped. A prompt's figures cover only the kept visits. */
export const MAX_VISITS = 256
/** The current pass rate or mean of a prompt is computed from this number of newest visits. */
export const RECENT_VISITS = 2
/** A sample passes with this score or a higher one, as for the group signal `all_correct`. */
export const PASS_SCORE = 1

/** The classes of prompts by their visits, in the order in which pages show them. */
export const PROMPT_CLASSES = [
  'regressed',
  'flapping',
  'learning',
  'mixed',
  'unsolved',
  'solved',
  'never_varied',
] as const
export type PromptClass = (typeof PROMPT_CLASSES)[number]

/** The definition of each class, as pages show it. A prompt has the first class that applies, in this order. */
export const PROMPT_CLASS_TEXT: Record<PromptClass, string> = {
  unsolved: 'No sample has passed yet.',
  solved: 'All samples of the last two visits passed.',
  regressed:
    'The pass rate fell by at least 25 points, and stayed low until the last visit. A single comparison shows such a fall by chance less than once in a million. For reward models: the mean score fell by at least half the standard deviation of the prompt’s scores.',
  learning:
    'The pass rate rose by at least 25 points, and stayed high until the last visit. For reward models: the mean score rose by at least half the standard deviation of the prompt’s scores.',
  flapping:
    'The pass rate differs more between visits than chance explains (probability below 1 in a million), without a lasting rise or fall.',
  never_varied:
    'In each of at least two visits, all samples had the same score, so the prompt never gave a learning signal.',
  mixed: 'None of the other classes applies.',
}

const split = z.enum(['train', 'val']).default('train')
/** The key of a prompt: 32 hexadecimal digits. */
export const PromptKey = z.string().regex(/^[0-9a-f]{32}$/, 'must be a key of prompts.list')

/** Sort orders of `prompts.list`. */
export const PROMPT_ORDERS = ['rate', 'change', 'visits', 'lastStep', 'varied'] as const
export type PromptOrder = (typeof PROMPT_ORDERS)[number]

const PromptFilter = z.strictObject({
  run: RunName,
  split,
  class: z.enum(PROMPT_CLASSES).optional(),
  dataSource: storableText(256).optional(),
  /** Only prompts with this text in the preview or the promptId, ignoring case. */
  search: storableText(200).optional(),
})
export type PromptFilter = z.infer<typeof PromptFilter>

/** The input of `prompts.list`. */
export const PromptListInput = PromptFilter.extend({
  /**
   * `rate`: pass rate of the last two visits, or their mean score for reward models · `varied`: share of visits in
   * which the scores differ.
   */
  orderBy: z.enum(PROMPT_ORDERS).default('change'),
  descending: z.boolean().default(false),
  cursor: Cursor.nullish(),
  limit: z.int().min(1).max(200).default(50),
})
export type PromptListInput = z.infer<typeof PromptListInput>

/** The figures of a prompt over its visits. Failed and substituted samples are left out. */
export interface PromptRowDto {
  key: string
  /** The id that the trainer sent, or null if the prompt is recognized by its text. */
  promptId: string | null
  dataSource: string
  /** The first 300 characters of the prompt; for chat messages, of the last user message. */
  preview: string
  class: PromptClass
  visits: number
  scored: number
  /**
   * The share of samples that passed; null if only reward models score, because their scores do not show whether a
   * sample passes.
   */
  passRate: number | null
  mean: number | null
  /** `passRate` and `mean` over the last two visits. */
  recentPassRate: number | null
  recentMean: number | null
  /**
   * Pass rate (for reward models: mean) of the last two visits minus that of the earlier visits. Null for too few
   * visits.
   */
  change: number | null
  /** Share of visits in which the scores differ. */
  variedShare: number
  lastStep: number
  /** The last visits, oldest first, at most 32: steps, and pass rates (for reward models: means). */
  recent: { step: number; rate: number }[]
}

/** The output of `prompts.list`. */
export interface PromptListDto {
  items: PromptRowDto[]
  nextCursor: string | null
}

/** The input of `prompts.counts`. */
export const PromptCountsInput = PromptFilter.omit({ class: true })
export type PromptCountsInput = z.infer<typeof PromptCountsInput>

/**
 * The output of `prompts.counts`: the prompts that match a filter, by class, and all prompts of the run, by data
 * source.
 */
export interface PromptCountsDto {
  total: number
  byClass: Record<PromptClass, number>
  /** The largest data sources, at most 64. */
  dataSources: { name: string; prompts: number }[]
  /** Groups of the run and split whose prompt is empty. No list contains them. */
  groupsWithoutPrompt: number
}

/** The input of `prompts.history`. */
export const PromptHistoryInput = z.strictObject({ run: RunName, split, key: PromptKey })
export type PromptHistoryInput = z.infer<typeof PromptHistoryInput>

/** A visit: one group of a prompt. */
export interface PromptVisitDto {
  step: number
  batchId: string
  /** The uid of the group, or null if retention removed it. */
  uid: string | null
  scored: number
  passed: number | null
  mean: number
  /** Standard deviation with n − 1; null for one sample. */
  std: number | null
}

/** The output of `prompts.history`: a prompt with its visits, oldest first. */
export interface PromptHistoryDto extends PromptRowDto {
  history: PromptVisitDto[]
}

/** The input of `prompts.heat`. */
export const PromptHeatInput = PromptFilter.extend({
  /**
   * Maximum number of prompts. If more match, those with the lowest keys are returned. Keys are hashes, so the
   * choice is random.
   */
  limit: z.int().min(1).max(400).default(120),
})
export type PromptHeatInput = z.infer<typeof PromptHeatInput>

/**
 * The output of `prompts.heat`: the rates of prompts by step. The prompts with the highest rate over all their visits
 * are first.
 */
export interface PromptHeatDto {
  /** Number of matching prompts. `rows` has at most `limit` of them. */
  total: number
  /** True if all rates are pass rates, false if some are mean scores of reward models. */
  passRates: boolean
  rows: {
    key: string
    promptId: string | null
    preview: string
    steps: number[]
    rates: number[]
  }[]
}

/** The input of `prompts.steps`. */
export const PromptStepsInput = z.strictObject({ run: RunName, split, ...stepRange })
export type PromptStepsInput = z.infer<typeof PromptStepsInput>

/** The mean of pass@k or best of k over the groups with at least `k` scored samples. */
export interface AtK {
  k: number
  groups: number
  value: number
}

/** A step of `prompts.steps`, with the figures of its groups. */
export interface PromptStepDto {
  step: number
  batchId: string
  /** Groups by pass rate: 0, below one half, at least one half, 1; null if only reward models score. */
  groups: { none: number; some: number; most: number; all: number } | null
  /** pass@k, unbiased, over the groups with at least k scored samples; null if only reward models score. */
  passAt: AtK[] | null
  /** The expected highest score of k samples, unbiased, over the groups with at least k scored samples. */
  bestOf: AtK[]
}

/** The output of `prompts.steps`. */
export interface PromptStepsDto {
  steps: PromptStepDto[]
  /** Number of earlier steps of the range that are left out. */
  earlier: number
}

/** The input of `prompts.sample`, which draws prompts for the next step. */
export const PromptSampleInput = z.strictObject({
  run: RunName,
  split,
  dataSource: storableText(256).optional(),
  /**
   * `band`: draws uniformly from the prompts whose recent pass rate lies in `band` · `thompson`: draws a pass rate for
   * each prompt from its Beta posterior, and takes the prompts whose drawn rates are nearest to `target`.
   */
  strategy: z.enum(['band', 'thompson']),
  n: z.int().min(1).max(10_000),
  band: z
    .strictObject({ from: z.number().min(0).max(1), to: z.number().min(0).max(1) })
    .refine(({ from, to }) => from <= to, { message: 'from must not be above to' })
    .default({ from: 0.2, to: 0.8 }),
  target: z.number().min(0).max(1).default(0.5),
  /** The same seed draws the same prompts from the same data. */
  seed: z.int().min(0).max(4_294_967_295).optional(),
})
export type PromptSampleInput = z.infer<typeof PromptSampleInput>

/** A prompt drawn for the next step. */
export interface SampledPromptDto {
  key: string
  promptId: string | null
  dataSource: string
  preview: string
  recentPassRate: number
  lastStep: number
}

/** The output of `prompts.sample`. */
export interface PromptSampleDto {
  prompts: SampledPromptDto[]
  /** Prompts that could have been drawn. */
  eligible: number
}

/** Statistics of the groups of an ended batch, as stored with it. Failed and substituted samples do not count. */
export interface GroupPasses {
  /** Groups by their numbers of scored and passed samples. Null if only reward models score. */
  passes: [scored: number, passed: number, groups: number][] | null
  /** For k = 1, 2, 4 …: groups with at least k scored samples, and the mean of their expected best of k. */
  bestOf: [k: number, groups: number, mean: number][]
  /** Groups whose prompt is empty. */
  withoutPrompt: number
}
