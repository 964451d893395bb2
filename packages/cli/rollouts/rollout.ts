import type { SampleInput } from '../../../server/contract/trainer.ts'

export interface Rollout {
  sample: SampleInput
  run: string | null
  step: number | null
  split: 'train' | 'val' | null
}

export type RolloutFormat = 'samples' | 'csv' | 'parquet' | 'verl-dump' | 'openai-solutions'

/**
 * `keep`: the file's scores are the samples' scores. `log`: they go to `extraInfo.logged_score`, and the samples are
 * scored again.
 */
export type GivenScores = 'keep' | 'log'
