import { z } from 'zod'

const limit = (most: number) => z.int().min(0).max(most).nullable()

/** What a run may have at once; null: no limit of its own. */
export const RunLimitValues = z.strictObject({
  /** Samples that are accepted and have not ended, over all its batches. */
  maxQueuedSamples: limit(2_000_000_000),
  /** Batches that have not ended. */
  maxOpenBatches: limit(1_000_000),
  /** The highest `priority` its batches may ask for. */
  maxPriority: z.int().min(-100).max(100).nullable(),
})
export type RunLimitValues = z.infer<typeof RunLimitValues>

const RunName = z.string().min(1).max(256)

/** `limits.set`: of one run, or (`run` null) of every run that has none of its own. */
export const SetLimitsInput = z.strictObject({
  run: RunName.nullable(),
  limits: RunLimitValues,
})
export type SetLimitsInput = z.infer<typeof SetLimitsInput>

/** `limits.clear`: the run has the default again. */
export const ClearLimitsInput = z.strictObject({ run: RunName })

/** `limits.get`. */
export interface LimitsDto {
  defaults: RunLimitValues
  /** Runs with limits of their own, by name; 1,000 at most. Such a row replaces the default as a whole. */
  runs: (RunLimitValues & {
    run: string
    changedAt: string
    changedBy: string
    /** What it has at present. */
    queuedSamples: number
    openBatches: number
  })[]
}
