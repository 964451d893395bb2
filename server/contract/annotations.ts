import { z } from 'zod'
import { trimmedText } from './fields.ts'
import { SampleFilter, SampleIds } from './sample-filter.ts'
import { SampleId } from './trainer.ts'

/** Maximum number of samples that one call annotates by a filter. */
export const MAX_ANNOTATED_SAMPLES = 10_000

/** Maximum number of annotations listed for a sample. Older ones are left out. */
export const MAX_LISTED_ANNOTATIONS = 200

const label = trimmedText(64).min(1, 'must not be empty')
const note = trimmedText(2_000)

/** The input of `annotations.add`: one label and note for listed samples, or for all samples that match a filter. */
export const AddAnnotationInput = z
  .strictObject({
    /** Ids of samples; give either `samples` or `filter`. */
    samples: SampleIds.optional(),
    filter: SampleFilter.optional(),
    label,
    note: note.nullish(),
  })
  .refine((input) => (input.samples === undefined) !== (input.filter === undefined), {
    message: 'either samples or filter must be given',
    path: ['samples'],
  })
export type AddAnnotationInput = z.infer<typeof AddAnnotationInput>

/** An annotation, by its id. */
export const AnnotationRef = z.strictObject({
  id: z.string().regex(/^a\d{1,15}$/, 'must be an annotation id such as "a7"'),
})
/** The input of `annotations.update`. Only the given fields change. */
export const UpdateAnnotationInput = AnnotationRef.extend({
  label: label.optional(),
  note: note.nullish(),
})
export type UpdateAnnotationInput = z.infer<typeof UpdateAnnotationInput>
/** The input of `annotations.labels`. Without fields, the labels of all samples are listed. */
export const AnnotationLabelsInput = SampleFilter.pick({ run: true, batch: true })
export type AnnotationLabelsInput = z.infer<typeof AnnotationLabelsInput>
/** The input of `annotations.of`: a sample. */
export const AnnotationsOfInput = z.strictObject({ sample: SampleId })

/** A label that a user gave to a sample, with an optional note. */
export interface AnnotationDto {
  id: string
  sample: string
  label: string
  note: string | null
  author: string
  createdAt: string
  /** The time of the last change, or null if it was never changed. */
  updatedAt: string | null
}

/** The output of `annotations.add`. */
export interface AddedAnnotationsDto {
  /** New annotations. */
  added: number
  /** Samples that already have this label and note from this author. They are not changed. */
  alreadyAnnotated: number
  /** Number of given ids for which no sample exists. */
  missing: number
  /** Ids of the new annotations, for undo; empty for more than 1,000. */
  ids: string[]
  /**
   * True if more samples match than one call annotates. A repeated call starts again with the newest samples, so narrow
   * the filter to continue.
   */
  hasMore: boolean
}

/** A label in use, with its number of samples. */
export interface AnnotationLabelDto {
  label: string
  samples: number
}
