import type { SampleInput } from '../../server/wire/trainer.ts'

/** One rollout of a file: the sample to submit, and where it was made if the file says so. */
export interface Rollout {
  sample: SampleInput
  run: string | null
  /** Global training step. */
  step: number | null
}

/** The formats that are read: our own, upstream's `trainer.rollout_data_dir`, OpenAI's GSM8K solutions. */
export type RolloutFormat = 'samples' | 'verl-dump' | 'openai-solutions'
