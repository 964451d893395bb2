import { z } from 'zod'
import { Cursor, RunName, stepRange } from './fields.ts'
import { namesOf } from './names-of.ts'

export const SEVERITIES = ['warning', 'alerting'] as const
export type Severity = (typeof SEVERITIES)[number]

/** `insufficient`: too few samples, or the needed data was not recorded. */
export type MonitorState = 'ok' | Severity | 'insufficient'

/** Texts and default thresholds of a monitor. */
export interface MonitorDefinition {
  label: string
  /** A label of one or two words, for narrow columns. */
  short: string
  /** The definition of the value, in one line. */
  measures: string
  /** The likely cause of an incident. */
  why: string
  /** `score`: the unit of the reward. */
  unit: 'share' | 'correlation' | 'ratio' | 'score'
  /** The side of the threshold that opens an incident; `size`: an absolute value above the threshold. */
  bad: 'above' | 'below' | 'size'
  warning: number
  alerting: number
  /** Number of consecutive batches beyond the threshold after which an incident opens. */
  openAfter: number
  /** The unit of `n` in {@link MonitorPointDto}. */
  countedUnit: 'samples' | 'groups'
  /** Minimum `n`. With fewer, the state is `insufficient`. */
  minCount: number
}

/**
 * Monitors of runs with their default thresholds, in the order of pages and docs/monitors.md.
 * server/monitoring/definitions.ts computes their values.
 */
export const MONITOR_DEFINITIONS = {
  reward_drop: {
    label: 'Reward drop',
    short: 'Drop',
    measures:
      'fall of the mean reward below its median over the previous 5 batches, in standard deviations of a batch’s mean',
    why: 'The responses changed suddenly (for example, they lost the answer format), or the reward did.',
    ...{ unit: 'ratio', bad: 'above', warning: 4, alerting: 8, openAfter: 2 },
    ...{ countedUnit: 'samples', minCount: 32 },
  },
  length_correlation: {
    label: 'Length and reward',
    short: 'Length',
    measures: 'Pearson correlation of response length and score within a batch',
    why: 'The reward depends on response length rather than on content.',
    ...{ unit: 'correlation', bad: 'size', warning: 0.5, alerting: 0.7, openAfter: 3 },
    ...{ countedUnit: 'samples', minCount: 32 },
  },
  variance_collapse: {
    label: 'Variance collapse',
    short: 'Variance',
    measures: 'mean standard deviation within groups ÷ its median over the previous 20 batches',
    why: 'Responses to the same prompt get nearly equal scores, so advantages shrink to noise.',
    ...{ unit: 'ratio', bad: 'below', warning: 0.5, alerting: 0.25, openAfter: 3 },
    ...{ countedUnit: 'groups', minCount: 8 },
  },
  ceiling: {
    label: 'Ceiling',
    short: 'Ceiling',
    measures: 'share of scores in the top 1 % of the score range of this and the last 20 batches',
    why: 'The reward no longer distinguishes good responses.',
    ...{ unit: 'share', bad: 'above', warning: 0.9, alerting: 0.97, openAfter: 3 },
    ...{ countedUnit: 'samples', minCount: 32 },
  },
  floor: {
    label: 'Floor',
    short: 'Floor',
    measures:
      'share of scores in the bottom 1 % of the score range of this and the last 20 batches',
    why: 'Almost no response is rewarded: the prompts are too hard, or the reward is broken.',
    ...{ unit: 'share', bad: 'above', warning: 0.9, alerting: 0.97, openAfter: 3 },
    ...{ countedUnit: 'samples', minCount: 32 },
  },
  component_dominance: {
    label: 'Component dominance',
    short: 'Components',
    measures: 'largest share of the reward variance from one component',
    why: 'One component determines the reward, and the others have little effect.',
    ...{ unit: 'share', bad: 'above', warning: 0.95, alerting: 0.99, openAfter: 3 },
    ...{ countedUnit: 'samples', minCount: 32 },
  },
  duplicates: {
    label: 'Duplicate responses',
    short: 'Duplicates',
    measures: 'share of samples with a duplicate response in their group',
    why: 'The policy no longer explores, or decoding is greedy.',
    ...{ unit: 'share', bad: 'above', warning: 0.2, alerting: 0.5, openAfter: 2 },
    ...{ countedUnit: 'samples', minCount: 32 },
  },
  all_incorrect: {
    label: 'All incorrect',
    short: 'Incorrect',
    measures: 'share of groups with equal scores of 0 or less',
    why: 'The prompts are too hard, or the reward is 0 for every response.',
    ...{ unit: 'share', bad: 'above', warning: 0.6, alerting: 0.9, openAfter: 2 },
    ...{ countedUnit: 'groups', minCount: 8 },
  },
  failures: {
    label: 'Failures',
    short: 'Failures',
    measures: 'share of samples that failed',
    why: 'Failed samples have no score. Groups shrink, and often lose one kind of sample.',
    ...{ unit: 'share', bad: 'above', warning: 0.02, alerting: 0.1, openAfter: 1 },
    ...{ countedUnit: 'samples', minCount: 32 },
  },
  no_signal: {
    label: 'No-signal share',
    short: 'No signal',
    measures: 'share of groups whose advantages are all zero',
    why: 'No-signal groups cost rollouts and do not change the policy.',
    ...{ unit: 'share', bad: 'above', warning: 0.7, alerting: 0.9, openAfter: 2 },
    ...{ countedUnit: 'groups', minCount: 8 },
  },
  no_spread: {
    label: 'No spread',
    short: 'Spread',
    measures: 'highest minus lowest score of a reward model within a batch',
    why: 'A reward model that gives every sample the same score provides no learning signal.',
    ...{ unit: 'score', bad: 'below', warning: 0, alerting: 0, openAfter: 1 },
    ...{ countedUnit: 'samples', minCount: 32 },
  },
} as const satisfies Record<string, MonitorDefinition>
export type MonitorName = keyof typeof MONITOR_DEFINITIONS
export const MONITORS = namesOf(MONITOR_DEFINITIONS)

/** Monitors of servers. */
export const FLEET_DEFINITIONS = {
  server_unavailable: { label: 'Server unavailable', severity: 'warning' },
  no_healthy_server: { label: 'No healthy server', severity: 'alerting' },
} as const satisfies Record<string, { label: string; severity: Severity }>
export type FleetMonitorName = keyof typeof FLEET_DEFINITIONS
export const FLEET_MONITORS = namesOf(FLEET_DEFINITIONS)

/** A monitor compares a batch with this many previous batches of the same split. */
export const WINDOW = 20
/** Maximum number of batches that `monitors.run` returns. Older batches are left out. */
export const MAX_POINTS = 1_000

const Split = z.enum(['train', 'val'])

/** The input of `monitors.run`. */
export const MonitorRunInput = z.strictObject({
  run: RunName,
  split: Split.default('train'),
  /** Maximum number of batches to return. If the range of steps has more batches, the newest are returned. */
  points: z.int().min(1).max(MAX_POINTS).default(MAX_POINTS),
  ...stepRange,
})
export type MonitorRunInput = z.infer<typeof MonitorRunInput>

/** The input of `monitors.history`: a filter and a page of incidents. */
export const MonitorHistoryInput = z.strictObject({
  run: RunName.optional(),
  monitor: z.enum([...MONITORS, ...FLEET_MONITORS]).optional(),
  cursor: Cursor.nullish(),
  limit: z.int().min(1).max(200).default(50),
})
export type MonitorHistoryInput = z.infer<typeof MonitorHistoryInput>

/** The input of `monitors.settings`. */
export const MonitorSettingsInput = z.strictObject({ run: RunName.nullish() })
export type MonitorSettingsInput = z.infer<typeof MonitorSettingsInput>

/** The input of `monitors.configure`. Null restores a field to the default, or to the setting for all runs. */
export const MonitorConfigureInput = z.strictObject({
  /** The name of a run. Null means all runs. */
  run: RunName.nullable(),
  monitor: z.enum(MONITORS),
  enabled: z.boolean().nullable(),
  /** The threshold of a warning. */
  warning: z.number().nullable(),
  /** The threshold of an alert. */
  alerting: z.number().nullable(),
  /** Number of consecutive batches beyond the threshold after which an incident opens. */
  openAfter: z.int().min(1).max(100).nullable(),
})
export type MonitorConfigureInput = z.infer<typeof MonitorConfigureInput>

/** Where a setting is set: for the run, for all runs, or nowhere (`default`). */
export type SettingSource = 'default' | 'all_runs' | 'run'

/** The settings in force for a monitor, for one run or for all runs. */
export interface MonitorSettingDto {
  monitor: MonitorName
  enabled: boolean
  warning: number
  alerting: number
  /** Number of consecutive batches beyond the threshold after which an incident opens. */
  openAfter: number
  /** The most specific source of any of these values: `run` before `all_runs` before `default`. */
  source: SettingSource
  changedBy: string | null
  changedAt: string | null
}

/** The value of a monitor for one batch. */
export interface MonitorPointDto {
  step: number
  batchId: string
  /** Null if there is not enough data. */
  value: number | null
  n: number
  /** The state after this batch. */
  state: MonitorState
  /** Further data, such as the component or the reference value. */
  detail: string | null
}

/** A period in which a value was beyond its threshold. */
export interface IncidentDto {
  id: string
  monitor: MonitorName | FleetMonitorName
  /** Null for monitors of servers. */
  run: string | null
  split: 'train' | 'val' | null
  /** For monitors of servers: the server or the model; otherwise null. */
  subject: string | null
  /** The highest severity so far. */
  severity: Severity
  openedAt: string
  openedStep: number | null
  openedBatchId: string | null
  /** The value that opened the incident. */
  value: number | null
  threshold: number | null
  /** The value at the last batch or, for a closed incident, the value that closed it. Null for monitors of servers. */
  latest: number | null
  /** The worst value so far. */
  worst: number | null
  worstStep: number | null
  detail: string | null
  /** Null while the incident is open. */
  closedAt: string | null
  closedStep: number | null
  closedBatchId: string | null
  closedValue: number | null
}

/** The latest state of the monitors of a run. */
export interface MonitoredRunDto {
  run: string
  split: 'train' | 'val'
  seeded: boolean
  lastStep: number
  lastAt: string
  monitors: {
    monitor: MonitorName
    state: MonitorState | 'off'
    value: number | null
    step: number
  }[]
}

/** The output of `monitors.list`: open incidents, and runs with recent batches. */
export interface MonitorsDto {
  open: IncidentDto[]
  /** True if more incidents are open than are listed. */
  hasMoreOpen: boolean
  /** The runs with the newest batches, at most 40. */
  runs: MonitoredRunDto[]
  /** True if there are more runs than are listed. */
  hasMoreRuns: boolean
  /** Batches that have ended and are not evaluated yet. */
  pending: number
}

/** The output of `monitors.run`. */
export interface RunMonitorsDto {
  run: string
  split: 'train' | 'val'
  /** Splits with evaluated batches. */
  splits: ('train' | 'val')[]
  /** Number of older batches, which are left out. */
  earlier: number
  monitors: {
    setting: MonitorSettingDto
    state: MonitorState | 'off'
    /** In order of batches. */
    points: MonitorPointDto[]
  }[]
  /** Newest first, at most 100. */
  incidents: IncidentDto[]
  /** True if there are more incidents than are listed. */
  hasMoreIncidents: boolean
}

/** The output of `monitors.history`. */
export interface IncidentPageDto {
  items: IncidentDto[]
  nextCursor: string | null
}
