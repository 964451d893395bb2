import type { SampleFailureReason } from './sample-reason.ts'

/** The result of a group's post-processing: scores in the order of the samples, or a failure. */
export type PostProcessed =
  | { ok: true; scores: number[] }
  | { ok: false; reason: SampleFailureReason; detail: string }
