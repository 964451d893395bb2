import type { SampleFailureReason } from './sample-reason.ts'

/** What became of a group's post-processing: its scores in the order of its members, or why there are none. */
export type PostProcessed =
  | { ok: true; scores: number[] }
  | { ok: false; reason: SampleFailureReason; detail: string }
