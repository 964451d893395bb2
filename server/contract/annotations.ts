import { z } from 'zod'
import { SampleFilter, SampleIds } from './sample-filter.ts'
import { SampleId } from './trainer.ts'

/** Notes on samples: a label, a few words, who and when. */

/** Samples that one call may annotate by a filter. */
export const MAX_ANNOTATED_SAMPLES = 10_000

const plain = (text: string) => text.isWellFormed() && !text.includes('\u0000')
const label = z
  .string()
  .trim()
  .min(1, 'must not be empty')
  .max(64, 'must be at most 64 characters')
  .refine(plain, 'must be text without NUL characters or lone surrogates')
const note = z
  .string()
  .trim()
  .max(2_000, 'must be at most 2,000 characters')
  .refine(plain, 'must be text without NUL characters or lone surrogates')

/** `annotations.add`: the same label and note on each of these samples, or on all that fit a filter. */
export const AddAnnotationInput = z
  .strictObject({
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

/** Which annotation, as its `id` says. */
export const AnnotationRef = z.strictObject({
  id: z.string().regex(/^a\d{1,15}$/, 'must be an annotation id such as "a7"'),
})
/** `annotations.update`: what is not given stays. */
export const UpdateAnnotationInput = AnnotationRef.extend({
  label: label.optional(),
  note: note.nullish(),
})
export type UpdateAnnotationInput = z.infer<typeof UpdateAnnotationInput>
/** `annotations.labels`: of all samples, or of a run's or a batch's. */
export const AnnotationLabelsInput = SampleFilter.pick({ run: true, batch: true })
export type AnnotationLabelsInput = z.infer<typeof AnnotationLabelsInput>
/** `annotations.of` a sample. */
export const AnnotationsOfInput = z.strictObject({ sample: SampleId })

/** An annotation. */
export interface AnnotationDto {
  id: string
  sample: string
  label: string
  /** The note; null: none. */
  note: string | null
  author: string
  createdAt: string
  /** The time of the last change; null: never changed. */
  updatedAt: string | null
}

/** What `annotations.add` did. */
export interface AddedAnnotationsDto {
  /** Annotations made. */
  added: number
  /** Samples that have one of this label and author already; nothing was added to them. */
  alreadyAnnotated: number
  /** Samples of the list that do not exist. */
  missing: number
  /** Their ids, where at most 1,000 were made: to take it back. */
  ids: string[]
  /** More samples fit the filter than {@link MAX_ANNOTATED_SAMPLES}, or than one call looks at: call again to go on. */
  hasMore: boolean
}

/** A label in use, with how many samples have it. */
export interface AnnotationLabelDto {
  label: string
  samples: number
}
