import type { z } from 'zod'
import { SampleFilter } from './sample-filter.ts'

/** `samples.extraKeys`: of the batches of a run, of steps, or of one batch. */
export const ExtraKeysInput = SampleFilter.pick({
  run: true,
  batch: true,
  step: true,
  stepTo: true,
  split: true,
  rescored: true,
})
export type ExtraKeysInput = z.infer<typeof ExtraKeysInput>

/** A key of `rewardExtraInfo`: what filters, columns and charts offer. */
export interface ExtraKeyDto {
  key: string
  /** Samples that have it with a value other than null. */
  samples: number
  /** How many of these are of each type; the rest are lists and objects. */
  numbers: number
  booleans: number
  texts: number
  /** Of the numbers; null: there is none, or not a finite one. */
  min: number | null
  max: number | null
  /** Its texts with their counts, the most frequent first, where they are few; else empty. */
  values: { text: string; samples: number }[]
}

/** `samples.extraKeys`: the most frequent first. */
export interface ExtraKeysDto {
  keys: ExtraKeyDto[]
  /** Batches that were considered, the newest; and those of them whose keys are not rolled up yet. Of the newest of these the first samples were looked at. */
  batches: number
  pending: number
  /** There are more keys, or older batches, than are told. */
  capped: boolean
}

/** `samples.count`. */
export const SampleCountInput = SampleFilter

/** How many samples match a filter. */
export interface SampleCountDto {
  samples: number
  /** False: the count of the searched samples; more may match. */
  exact: boolean
  searchedSamples: number
  batches: number
}
