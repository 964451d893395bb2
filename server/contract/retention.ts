import { z } from 'zod'

const days = z.int().min(1).max(36_500).nullable()

/** What is kept how long, in days since a batch was submitted; null: for good. */
export const RetentionPolicy = z.strictObject({
  /** Days until texts are removed: prompt, response, ground truth, extra info. Null: never. */
  textsDays: days,
  /** Days until whole batches are removed. Null: never. */
  batchesDays: days,
  /** Keep removed batches and their statistics, so that run pages look as before. */
  keepRollUps: z.boolean(),
  /** Days until server events, figures per minute and attempts are removed. Null: never. */
  eventsDays: days,
  /** Days until audit entries are removed. Null: never. */
  auditDays: days,
})
export type RetentionPolicy = z.infer<typeof RetentionPolicy>

/** Before anybody sets one: rollouts are kept, and who changed what for a year. */
export const DEFAULT_POLICY: RetentionPolicy = {
  textsDays: null,
  batchesDays: null,
  keepRollUps: true,
  eventsDays: null,
  auditDays: 365,
}

const RunName = z.string().min(1).max(256)

/** `retention.preview`: what a policy, or deleting a run, would remove now. */
export const PreviewInput = z.union([
  z.strictObject({ policy: RetentionPolicy }),
  z.strictObject({ run: RunName }),
])
export type PreviewInput = z.infer<typeof PreviewInput>

/** `retention.keepRun`: the policy leaves a run alone, or no longer does. */
export const KeepRunInput = z.strictObject({ run: RunName, keep: z.boolean() })
/** `retention.deleteRun`: `confirm` is the run's name once more. */
export const DeleteRunInput = z.strictObject({ run: RunName, confirm: z.string().max(256) })
/** `retention.cancel`. */
export const RetentionJobRef = z.strictObject({
  id: z.string().regex(/^r\d{1,9}$/, 'must be the id of a removal such as r3'),
})

/** What a removal would take, or has taken. */
export interface RemovedDto {
  batches: number
  samples: number
  /** Batches whose texts alone go. */
  textBatches: number
  /** Days of texts that go as a whole. */
  partitions: number
  /** Rows of events, minutes, attempts and the audit list. */
  events: number
  /** Given back to the disk at once: days of texts that go as a whole. */
  freedBytes: number
  /** An estimate. Stays in the database's files and is written over by what comes next. */
  reusableBytes: number
}

/** `retention.preview`. */
export interface RetentionPreviewDto extends RemovedDto {
  /** Batches that are old enough and stay: of kept runs, under way, or being copied. */
  skipped: { kept: number; underWay: number }
  /** Events counted up to this many; more are said to be so. */
  eventsCapped: boolean
  /** By day, oldest first; 400 at most. */
  days: { day: string; batches: number; bytes: number; whole: boolean }[]
}

/** A removal under way, or over. */
export interface RetentionJobDto {
  id: string
  kind: 'policy' | 'run'
  run: string | null
  state: 'running' | 'done' | 'cancelled'
  requestedBy: string
  createdAt: string
  endedAt: string | null
  /** So far. */
  removed: RemovedDto
  /** What it was expected to take when it began; null: not known. */
  expected: { batches: number; samples: number } | null
  /** Why its last piece failed; it is tried again. */
  problem: string | null
}

/** `retention.get`. */
export interface RetentionDto {
  policy: RetentionPolicy
  changedAt: string | null
  changedBy: string | null
  /** Runs the policy leaves alone, by name; 1,000 at most. */
  kept: { run: string; keptAt: string; keptBy: string }[]
  /** The newest 20. */
  jobs: RetentionJobDto[]
}
