import { z } from 'zod'
import { Cursor, name, storableText } from './fields.ts'
import { type ConfigValue, Tag } from './run-config.ts'

/** A run with pending samples is stalled after this time without a completed group and without new samples. */
export const STALLED_AFTER_MS = 5 * 60_000
/** Maximum number of last steps over which the change of a run, its linear trend, is computed. */
export const CHANGE_STEPS = 20
/** Maximum number of points of a run's curve. */
export const MAX_CURVE_POINTS = 60

export const RUN_STATUSES = ['scoring', 'stalled', 'idle'] as const
/**
 * `scoring`: samples are pending. `stalled`: samples are pending, and for five minutes no group has completed and no
 * samples arrived. `idle`: no samples are pending.
 */
export type RunStatus = (typeof RUN_STATUSES)[number]

export const RUN_SORTS = [
  'activity',
  'created',
  'name',
  'mean',
  'best',
  'change',
  'step',
  'samples',
  'noSignal',
  'failed',
  'reward',
] as const
/** Columns by which runs can be sorted. */
export type RunSort = (typeof RUN_SORTS)[number]

const ConfigKey = name(256)
export const CONFIG_OPERATORS = ['=', '!=', '<', '<=', '>', '>=', '~'] as const
/** A condition on a value of the configuration. Runs without the value match only `!=`. */
export const ConfigFilter = z.strictObject({
  /** The dotted path, such as `optimizer.lr`. */
  key: ConfigKey,
  /** `~`: contains the text, ignoring case. The comparisons `<` to `>=` need a number. */
  is: z.enum(CONFIG_OPERATORS),
  /** Numbers are compared by value (`1e-6` equals `0.000001`); `true`, `false` and `null` are written as in JSON. */
  value: storableText(500),
})
export type ConfigFilter = z.infer<typeof ConfigFilter>

/** The input of `runs.table`. */
export const RunTableInput = z.strictObject({
  /** Only runs with this text in the name, ignoring case. */
  search: storableText(256).optional(),
  /** Only runs with all of these tags. */
  tags: z.array(Tag).max(32).default([]),
  status: z.enum(RUN_STATUSES).optional(),
  /** Only runs that meet all conditions. */
  config: z.array(ConfigFilter).max(20).default([]),
  sort: z.enum(RUN_SORTS).default('activity'),
  /** Sorts by this value of the configuration instead of `sort`. */
  sortConfig: ConfigKey.optional(),
  order: z.enum(['asc', 'desc']).default('desc'),
  /** Lists runs by tag. A run with several tags is listed once for each tag. */
  byTag: z.boolean().default(false),
  /** Values of the configuration to return. */
  columns: z.array(ConfigKey).max(20).default([]),
  cursor: Cursor.nullish(),
  limit: z.int().min(1).max(200).default(50),
})
export type RunTableInput = z.infer<typeof RunTableInput>

/** The linear trend of the mean score over the last steps of a run. */
export interface RunChangeDto {
  /** Change along the fitted line, from the first fitted step to the last. */
  value: number
  /** The 95 % confidence interval of the change. */
  low: number
  high: number
  /** Number of fitted steps, at most 20. */
  steps: number
}

/**
 * A run with its figures. Reward figures cover ended batches of the training split, or of validation if the run has no
 * training batches. Reward means use only the last batch of each step. Numbers of samples, failures and no-signal
 * groups include all batches. Rescored batches are left out.
 */
export interface RunTableRowDto {
  name: string
  seeded: boolean
  createdAt: string
  tags: string[]
  status: RunStatus
  /**
   * Time of the last activity. For an idle run, this is the end of its last batch. Otherwise, it is the last time at
   * which a group completed or samples arrived. Null if the run has no batch.
   */
  since: string | null
  /** Samples without a result. */
  pending: number
  /** Null before the first batch. */
  split: 'train' | 'val' | null
  /** The highest step, without rescored batches. */
  lastStep: number | null
  lastSubmittedAt: string | null
  batches: number
  validationBatches: number
  rescoredBatches: number
  samples: number
  failed: number
  /** Share of no-signal groups. */
  noSignal: number | null
  /** Mean score of the last step. */
  mean: number | null
  best: { mean: number; step: number } | null
  /** Null with fewer than three steps. */
  change: RunChangeDto | null
  /**
   * Mean scores by step, at most 60 points. With more steps, a point is the mean of consecutive steps and has the
   * number of the last of these steps.
   */
  curve: { step: number; mean: number }[]
  /** The reward of the last batch, and a hash that changes whenever the reward changes. */
  reward: { name: string; version: string } | null
  /** The configuration values requested in `columns`. */
  config: Record<string, ConfigValue>
  /** With `byTag`: the tag that the row is listed for, or null if the run has no tags. */
  tag: string | null
  /** With `byTag`: number of matching runs with this tag. */
  tagRuns: number | null
}

/** The output of `runs.table`. */
export interface RunTableDto {
  items: RunTableRowDto[]
  nextCursor: string | null
  /** Number of matching runs. */
  total: number
  /** Number of all runs. */
  runs: number
}

/** The output of `runs.facets`: tags and configuration keys of the newest 2,000 runs. */
export interface RunFacetsDto {
  tags: { tag: string; runs: number }[]
  /** Keys with the most distinct values come first. */
  keys: { key: string; runs: number; values: number }[]
}
