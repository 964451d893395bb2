import type { SampleInput } from '../../../server/contract/trainer.ts'

/** One rollout of a file: the sample to submit, and where it was made if the file says so. */
export interface Rollout {
  sample: SampleInput
  run: string | null
  /** Global training step. */
  step: number | null
  split: 'train' | 'val' | null
}

/** The formats that are read: our own as JSON Lines and CSV, upstream's `trainer.rollout_data_dir`, OpenAI's GSM8K solutions. */
export type RolloutFormat = 'samples' | 'csv' | 'verl-dump' | 'openai-solutions'

/** What becomes of scores a file has: kept as the samples' own, or only written down in `extraInfo`, to be scored anew. */
export type GivenScores = 'keep' | 'log'
