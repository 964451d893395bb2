import { z } from 'zod'
import { Cursor } from './fields.ts'
import type { SampleFailureReason } from './sample-reason.ts'
import { BatchId } from './trainer.ts'

/** Maximum number of groups and of samples in one part of a timeline. */
export const MAX_TIMELINE_GROUPS = 2_000
export const MAX_TIMELINE_SAMPLES = 32_768

/** The input of `batches.timeline`. */
export const TimelineInput = z.strictObject({
  batchId: BatchId,
  /** The index of the part, from 0. Each part has `partGroups` groups, in completion order. */
  part: z.int().min(0).max(1_000_000).default(0),
  /** The `cursor` of the previous answer. The new answer then has only entries that may have changed since. */
  after: Cursor.nullable().default(null),
})
export type TimelineInput = z.infer<typeof TimelineInput>

/**
 * The timeline of a batch's groups and samples, as columns of equal length. Times are milliseconds since the batch was
 * accepted. An answer that is not `full` is merged into the previous ones; entries may repeat.
 */
export interface TimelineDto {
  batchId: string
  /** If false, merge this answer into the previous ones. */
  full: boolean
  /** The `after` of the next call; if null, the next answer is always full. */
  cursor: string | null
  /** The time of this answer, or of the batch's end if the batch has ended. */
  atMs: number
  ended: boolean
  totals: { groups: number; groupsCompleted: number; samples: number }
  part: number
  parts: number
  /** Groups per part. */
  partGroups: number
  /** Groups of this part so far. */
  groupsInPart: number
  /** Samples left out because the part has more than 32,768. */
  samplesLeftOut: number
  servers: string[]
  /** Groups of the part: completed ones by completion number, then the incomplete ones by group number. */
  groups: {
    no: number[]
    uid: string[]
    size: number[]
    /** The completion number, from 1; 0 if the group is not complete. */
    seq: number[]
    completedMs: (number | null)[]
  }
  /** Samples that were scored or failed. */
  samples: {
    index: number[]
    group: number[]
    /** The time of the first dispatch; null if the sample was never dispatched. */
    dispatchedMs: (number | null)[]
    endedMs: number[]
    /** The server that scored the sample, as an index into `servers`; null if none did. */
    server: (number | null)[]
  }
  /** Failed samples with their failure reasons. */
  failed: { index: number[]; reason: SampleFailureReason[] }
  /** Samples with several attempts. */
  retried: { index: number[]; attempts: number[] }
  /** Groups with claimed samples: the number of these samples, and the time of the claim. */
  claimed: { group: number[]; samples: number[]; sinceMs: number[] }
  /** Attempts of the last sample of each group, if that sample had several attempts or failed. */
  calls: {
    index: number[]
    startedMs: number[]
    queueMs: number[]
    backoffMs: number[]
    serviceMs: number[]
  }
}

/** The output of `batches.bottleneck`: the server that held up an ended batch. */
export interface BottleneckDto {
  /** Time from the acceptance of the batch until its last sample was scored or failed. */
  totalMs: number
  /**
   * The number of servers that returned scores; 0 if the batch used several models, because their servers are not
   * compared.
   */
  servers: number
  /** Null if no server stands out. */
  server: {
    name: string
    /** Number of scores that this server returned. */
    samples: number
    /** This server's median time per request; `ratio` is that time ÷ the median of the other servers. */
    medianMs: number
    ratio: number
    /** Time at the end of the batch during which only this server was still scoring. */
    tailMs: number
    /** The estimated time of the batch without this server. */
    withoutMs: number
  } | null
}
