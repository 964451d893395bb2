import { z } from 'zod'
import type { SampleFailureReason } from './sample-reason.ts'
import { BatchId } from './trainer.ts'

/** Most groups and most samples of one part of a timeline; more are shown part by part. */
export const TIMELINE_GROUPS = 2_000
export const TIMELINE_SAMPLES = 32_768

/** `batches.timeline`. */
export const TimelineInput = z.strictObject({
  batchId: BatchId,
  /** Which part of the groups in completion order, from 0; a part has `partGroups` of them. */
  part: z.int().min(0).max(1_000_000).default(0),
  /** The cursor of the answer before: only what may have changed since is told. */
  after: z.string().max(64).nullable().default(null),
})
export type TimelineInput = z.infer<typeof TimelineInput>

/**
 * When the groups of a batch came to be, sample by sample. Columns of equal length, times in milliseconds since the
 * batch was accepted. An answer that is not `full` is merged into what is known: the same row may come again.
 */
export interface TimelineDto {
  batchId: string
  full: boolean
  /** To be given as `after`; null where the next answer will be full anyway. */
  cursor: string | null
  /** The moment of this answer, or of the batch's end. */
  atMs: number
  ended: boolean
  totals: { groups: number; groupsCompleted: number; samples: number }
  part: number
  parts: number
  /** Groups of a part, and how many this part has now. */
  partGroups: number
  groupsInPart: number
  /** Samples left out because the part has more than TIMELINE_SAMPLES; 0 usually. */
  samplesLeftOut: number
  servers: string[]
  /** Those of the part; completed ones by completion number, then the waiting by number. */
  groups: {
    no: number[]
    uid: string[]
    size: number[]
    /** Completion number from 1; 0: not complete. */
    seq: number[]
    completedMs: (number | null)[]
  }
  /** Samples that ended. */
  samples: {
    index: number[]
    group: number[]
    /** First dispatch; null: ended without one. */
    dispatchedMs: (number | null)[]
    endedMs: number[]
    /** Who answered, as an index of `servers`; null: no server (a rule, or a failure without one). */
    server: (number | null)[]
  }
  /** Those of `samples` that failed. */
  failed: { index: number[]; reason: SampleFailureReason[] }
  /** Those of `samples` that took more than one call. */
  retried: { index: number[]; attempts: number[] }
  /** Groups of which a worker holds samples now, since when the first of them. */
  claimed: { group: number[]; samples: number[]; sinceMs: number[] }
  /** The calls of samples that ended last in their group, where there was more than one or a failure. */
  calls: {
    index: number[]
    startedMs: number[]
    queueMs: number[]
    backoffMs: number[]
    serviceMs: number[]
  }
}
