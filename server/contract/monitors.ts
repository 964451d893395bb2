import { z } from 'zod'

/** What is watched of every run, in the order in which pages list it. docs/monitors.md has each one's definition. */
export const MONITORS = [
  'length_correlation',
  'variance_collapse',
  'ceiling',
  'floor',
  'component_dominance',
  'duplicates',
  'all_incorrect',
  'failures',
  'no_signal',
  'no_spread',
] as const
export type MonitorName = (typeof MONITORS)[number]

/** What is watched of the servers. */
export const FLEET_MONITORS = ['server_unavailable', 'no_healthy_server'] as const
export type FleetMonitorName = (typeof FLEET_MONITORS)[number]

/** How bad it is. */
export const SEVERITIES = ['warning', 'alerting'] as const
export type Severity = (typeof SEVERITIES)[number]

/** `insufficient`: too few samples, or what it is made of was not recorded; that is neither good nor bad. */
export type MonitorState = 'ok' | Severity | 'insufficient'

/** What a monitor is, in words and units. */
export interface MonitorDefinition {
  label: string
  /** Where there is room for one word. */
  short: string
  /** What the number is, in one line. */
  measures: string
  /** Why one would look. */
  why: string
  /** `score`: in the reward's own units. */
  unit: 'share' | 'correlation' | 'ratio' | 'score'
  /** On which side of the threshold it is bad; `size`: the number without its sign is too large. */
  bad: 'above' | 'below' | 'size'
  warning: number
  alerting: number
  /** Batches in a row beyond the threshold before it is told. */
  openAfter: number
  /** What `n` counts. */
  countedUnit: 'samples' | 'groups'
  /** Fewer say nothing. */
  minCount: number
}

/** The definitions with their default thresholds. */
export const MONITOR_DEFINITIONS: Record<MonitorName, MonitorDefinition> = {
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
    measures: 'share of scores within 1 % of the top of the last 20 batches’ range',
    why: 'The reward no longer distinguishes good responses.',
    ...{ unit: 'share', bad: 'above', warning: 0.9, alerting: 0.97, openAfter: 3 },
    ...{ countedUnit: 'samples', minCount: 32 },
  },
  floor: {
    label: 'Floor',
    short: 'Floor',
    measures: 'share of scores within 1 % of the bottom of the last 20 batches’ range',
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
    short: 'All incorrect',
    measures: 'share of groups with equal scores of 0 or less',
    why: 'The prompts are too hard, or the reward is 0 for every response.',
    ...{ unit: 'share', bad: 'above', warning: 0.6, alerting: 0.9, openAfter: 2 },
    ...{ countedUnit: 'groups', minCount: 8 },
  },
  failures: {
    label: 'Failures',
    short: 'Failures',
    measures: 'share of samples that failed',
    why: 'Failed samples have no score, so groups shrink, and not at random.',
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
    why: 'A reward model that gives every sample the same score has no learning signal.',
    ...{ unit: 'score', bad: 'below', warning: 0, alerting: 0, openAfter: 1 },
    ...{ countedUnit: 'samples', minCount: 32 },
  },
}

/** What fleet conditions are called, and how bad they are. */
export const FLEET_DEFINITIONS: Record<FleetMonitorName, { label: string; severity: Severity }> = {
  server_unavailable: { label: 'Server unavailable', severity: 'warning' },
  no_healthy_server: { label: 'No healthy server', severity: 'alerting' },
}

/** Batches of a run that are looked back on, of the same split. */
export const WINDOW = 20
/** Batches that a run's monitors are shown for, the newest. */
export const MAX_POINTS = 1_000

const RunName = z.string().min(1).max(256)
const Split = z.enum(['train', 'val'])

/** `monitors.run`. */
export const MonitorRunInput = z.strictObject({
  run: RunName,
  split: Split.default('train'),
  /** The number of newest batches. */
  points: z.int().min(1).max(MAX_POINTS).default(MAX_POINTS),
})
export type MonitorRunInput = z.infer<typeof MonitorRunInput>

/** `monitors.history`: incidents, the newest first. */
export const MonitorHistoryInput = z.strictObject({
  run: RunName.optional(),
  monitor: z.enum([...MONITORS, ...FLEET_MONITORS]).optional(),
  cursor: z.string().max(32).nullish(),
  limit: z.int().min(1).max(200).default(50),
})
export type MonitorHistoryInput = z.infer<typeof MonitorHistoryInput>

/** `monitors.settings`: of one run, or what holds for all. */
export const MonitorSettingsInput = z.strictObject({ run: RunName.nullish() })
export type MonitorSettingsInput = z.infer<typeof MonitorSettingsInput>

/** `monitors.configure`: `run` null is for all runs; a field that is null goes back to what holds without it. */
export const MonitorConfigureInput = z.strictObject({
  run: RunName.nullable(),
  monitor: z.enum(MONITORS),
  enabled: z.boolean().nullable(),
  warning: z.number().nullable(),
  alerting: z.number().nullable(),
  openAfter: z.int().min(1).max(100).nullable(),
})
export type MonitorConfigureInput = z.infer<typeof MonitorConfigureInput>

/** Where a threshold comes from. */
export type SettingSource = 'default' | 'all_runs' | 'run'

/** By what a monitor of a run is judged. */
export interface MonitorSettingDto {
  monitor: MonitorName
  enabled: boolean
  warning: number
  alerting: number
  openAfter: number
  /** The nearest of the layers that says anything of it. */
  source: SettingSource
  changedBy: string | null
  changedAt: string | null
}

/** A monitor's number at one batch. */
export interface MonitorPointDto {
  step: number
  batchId: string
  /** null: not enough data. */
  value: number | null
  n: number
  /** As it stood after this batch. */
  state: MonitorState
  /** What one would want to know beside the number: the component, the reference. */
  detail: string | null
}

/** From when to when something was beyond its threshold. */
export interface IncidentDto {
  id: string
  monitor: MonitorName | FleetMonitorName
  /** null: of the fleet. */
  run: string | null
  split: 'train' | 'val' | null
  /** Of the fleet: the server, or the model. */
  subject: string | null
  /** The worst that it was. */
  severity: Severity
  openedAt: string
  openedStep: number | null
  openedBatchId: string | null
  value: number | null
  /** The threshold that was crossed. */
  threshold: number | null
  /** The worst number since. */
  worst: number | null
  worstStep: number | null
  detail: string | null
  /** null: still open. */
  closedAt: string | null
  closedStep: number | null
  closedBatchId: string | null
  closedValue: number | null
}

/** A run's monitors at a glance. */
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

/** `monitors.list`: what is open now, and the runs of late. */
export interface MonitorsDto {
  open: IncidentDto[]
  /** More than the list holds are open. */
  hasMoreOpen: boolean
  runs: MonitoredRunDto[]
  /** Batches that have ended and are not looked at yet. */
  pending: number
}

/** `monitors.run`. */
export interface RunMonitorsDto {
  run: string
  split: 'train' | 'val'
  /** Splits that have been looked at. */
  splits: ('train' | 'val')[]
  /** Batches before those that are given. */
  earlier: number
  monitors: {
    setting: MonitorSettingDto
    state: MonitorState | 'off'
    /** In order of their batches. */
    points: MonitorPointDto[]
  }[]
  /** The newest first, at most 100. */
  incidents: IncidentDto[]
}

/** `monitors.history`. */
export interface IncidentPageDto {
  items: IncidentDto[]
  nextCursor: string | null
}
