import { z } from 'zod'
import { SampleFilter } from './sample-filter.ts'
import { SampleId } from './trainer.ts'

/** The input of `samples.extraKeys`. */
export const ExtraKeysInput = SampleFilter.pick({
  run: true,
  batch: true,
  step: true,
  stepTo: true,
  split: true,
  rescored: true,
})
export type ExtraKeysInput = z.infer<typeof ExtraKeysInput>

/** A key of `rewardExtraInfo`, with the types and the range of its values. */
export interface ExtraKeyDto {
  key: string
  /** Samples with a value other than null. */
  samples: number
  /** Samples whose value is a number. Lists and objects are not counted here, nor in `booleans` or `texts`. */
  numbers: number
  booleans: number
  texts: number
  /** The lowest number, or null if there is no finite number. */
  min: number | null
  max: number | null
  /** Texts of the key, most frequent first. Empty if there are too many different texts. */
  values: { text: string; samples: number }[]
}

/** The output of `samples.extraKeys`. The most frequent keys come first. */
export interface ExtraKeysDto {
  keys: ExtraKeyDto[]
  /** Number of searched batches. The newest are searched first. */
  batches: number
  /**
   * Searched batches whose statistics are not stored yet. Only the newest four of these batches contribute keys, from
   * their first 256 samples.
   */
  pending: number
  /** True if some keys or older batches are left out. */
  capped: boolean
}

/** The input of `samples.firstLines`. */
export const FirstLinesInput = z.strictObject({
  ids: z.array(SampleId).min(1).max(100, 'takes at most 100 samples'),
})
export type FirstLinesInput = z.infer<typeof FirstLinesInput>

/** The first lines of a sample's texts, at most 200 characters each. */
export interface FirstLinesDto {
  id: string
  /** For chat messages: the first line of the first user message. */
  prompt: string
  response: string
}

/** The input of `samples.count`. */
export const SampleCountInput = SampleFilter

/** The number of samples that match a filter. */
export interface SampleCountDto {
  samples: number
  /** False if only `searchedSamples` samples were searched, so that more may match. */
  exact: boolean
  searchedSamples: number
  batches: number
}
