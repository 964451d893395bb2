import { z } from 'zod'
import { RunName, storableText } from './fields.ts'

const days = z.int().min(1).max(36_500).nullable()

/** The retention policy, in days since a batch was submitted. */
export const RetentionPolicy = z.strictObject({
  /** Days until texts (prompt, response, ground truth, extra info) are removed. Null means never. */
  textsDays: days,
  /** Days until whole batches are removed. Null means never. */
  batchesDays: days,
  /** Keep the summaries and statistics of removed batches, so that run pages look as before. */
  keepRollUps: z.boolean(),
  /** Days until server events, figures per minute and attempts are removed. Null means never. */
  eventsDays: days,
  /** Days until audit entries are removed. Null means never. */
  auditDays: days,
})
export type RetentionPolicy = z.infer<typeof RetentionPolicy>

/** The policy until an admin changes it: rollouts are kept forever, audit entries for a year. */
export const DEFAULT_POLICY: RetentionPolicy = {
  textsDays: null,
  batchesDays: null,
  keepRollUps: true,
  eventsDays: null,
  auditDays: 365,
}

/** The input of `retention.preview`: a policy, or a run to delete. */
export const PreviewInput = z.union([
  z.strictObject({ policy: RetentionPolicy }),
  z.strictObject({ run: RunName }),
])
export type PreviewInput = z.infer<typeof PreviewInput>

/** The input of `retention.keepRun`. */
export const KeepRunInput = z.strictObject({
  run: RunName,
  /** True excludes the run from the policy. */
  keep: z.boolean(),
})
/** The input of `retention.deleteRun`. */
export const DeleteRunInput = z.strictObject({
  run: RunName,
  /** The name of the run, repeated. */
  confirm: storableText(256),
})
/** The input of `retention.cancel`. */
export const RetentionJobRef = z.strictObject({
  id: z.string().regex(/^r\d{1,9}$/, 'must be the id of a removal such as r3'),
})

/** The extent of a removal. */
export interface RemovedDto {
  batches: number
  samples: number
  /** Batches that lose only their texts. */
  textBatches: number
  /** Days whose texts are all removed, by dropping the partition of the day. */
  partitions: number
  /** Rows of server events, figures per minute, attempts and audit entries. */
  events: number
  /** Disk space that is freed immediately. */
  freedBytes: number
  /** An estimate of the space that the database reuses for later data. */
  reusableBytes: number
}

/** The output of `retention.preview`. */
export interface RetentionPreviewDto extends RemovedDto {
  /**
   * Batches that are old enough for removal but are not removed: those of kept runs, and those that are running or
   * being rescored.
   */
  skipped: { kept: number; underWay: number }
  /** True if `events` is a lower bound. */
  eventsCapped: boolean
  /** The removal by day, oldest first, at most 400 days. `whole`: all data of the day is removed. */
  days: { day: string; batches: number; bytes: number; whole: boolean }[]
}

/** A running or ended removal. */
export interface RetentionJobDto {
  id: string
  kind: 'policy' | 'run'
  run: string | null
  state: 'running' | 'done' | 'cancelled'
  requestedBy: string
  createdAt: string
  endedAt: string | null
  /** Removed so far. */
  removed: RemovedDto
  /** The estimate at the start, or null if unknown. */
  expected: { batches: number; samples: number } | null
  /** The error of the last step, which is retried. */
  problem: string | null
}

/** Maximum number of listed removals, newest first. */
export const MAX_LISTED_REMOVALS = 20

/** The output of `retention.get`. */
export interface RetentionDto {
  policy: RetentionPolicy
  changedAt: string | null
  changedBy: string | null
  /** Runs that are exempt from the policy, by name, at most 1,000. */
  kept: { run: string; keptAt: string; keptBy: string }[]
  /** The newest 20 removals. */
  jobs: RetentionJobDto[]
}
