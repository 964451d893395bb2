import type { SampleInput } from '../../../server/contract/trainer.ts'

/** One rollout of a file: the sample to submit, with its run, step and split if the file names them. */
export interface Rollout {
  sample: SampleInput
  run: string | null
  /** Global training step. */
  step: number | null
  split: 'train' | 'val' | null
}

/** Supported formats: JSON Lines, CSV, Parquet, verl's `trainer.rollout_data_dir` and OpenAI's GSM8K solutions. */
export type RolloutFormat = 'samples' | 'csv' | 'parquet' | 'verl-dump' | 'openai-solutions'

/**
 * Handling of scores in a file. `keep`: they are the samples' scores. `log`: they go to `extraInfo.logged_score`, and
 * the samples are scored again.
 */
export type GivenScores = 'keep' | 'log'
