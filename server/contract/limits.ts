import { z } from 'zod'
import { RunName } from './fields.ts'

const limit = (most: number) => z.int().min(0).max(most).nullable()

/** Limits of a run. Null means no limit. */
export const RunLimitValues = z.strictObject({
  /** Samples that have neither been scored nor failed yet, over all batches of the run. */
  maxQueuedSamples: limit(2_000_000_000),
  /** Batches that have not ended. */
  maxOpenBatches: limit(1_000_000),
  /** The highest `priority` of a batch. */
  maxPriority: z.int().min(-100).max(100).nullable(),
})
export type RunLimitValues = z.infer<typeof RunLimitValues>

/** The input of `limits.set`. */
export const SetLimitsInput = z.strictObject({
  /** Null sets the default limits. They apply to runs that have no limits of their own. */
  run: RunName.nullable(),
  limits: RunLimitValues,
})
export type SetLimitsInput = z.infer<typeof SetLimitsInput>

/** The input of `limits.clear`. The default limits then apply to the run again. */
export const ClearLimitsInput = z.strictObject({ run: RunName })

/** The output of `limits.get`. */
export interface LimitsDto {
  defaults: RunLimitValues
  /** Runs with limits of their own, at most 1,000. These limits replace all default limits. */
  runs: (RunLimitValues & {
    run: string
    changedAt: string
    changedBy: string
    /** Samples not scored or failed yet. */
    queuedSamples: number
    /** Batches that have not ended. */
    openBatches: number
  })[]
}
