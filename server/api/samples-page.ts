import {
  AddAnnotationInput,
  type AddedAnnotationsDto,
  type AnnotationDto,
  type AnnotationLabelDto,
  AnnotationLabelsInput,
  AnnotationRef,
  AnnotationsOfInput,
  UpdateAnnotationInput,
} from '../wire/annotations.ts'
import type { SamplesByBatchDto } from '../wire/rescore.ts'
import type { Actor } from '../wire/roles.ts'
import {
  type ExtraKeysDto,
  ExtraKeysInput,
  type SampleCountDto,
  SampleCountInput,
} from '../wire/sample-extras.ts'
import type { SampleFilter } from '../wire/sample-filter.ts'
import {
  type SavedViewDto,
  SaveViewInput,
  UpdateViewInput,
  ViewRef,
  ViewsInput,
} from '../wire/saved-views.ts'
import { procedure, router } from './trpc.ts'

/** What the Samples page calls beyond its list: keys, counts, annotations, saved views. */
export interface SamplesPageServices {
  /** Keys of the reward extra info, from roll-ups. */
  extraKeys(input: ExtraKeysInput): Promise<ExtraKeysDto>
  /** How many samples fit a filter, bounded. */
  countSamples(filter: SampleFilter): Promise<SampleCountDto>
  /** In which batches the samples that fit lie, bounded. */
  samplesByBatch(filter: SampleFilter): Promise<SamplesByBatchDto>
  addAnnotations(input: AddAnnotationInput, actor: Actor): Promise<AddedAnnotationsDto>
  updateAnnotation(input: UpdateAnnotationInput, actor: Actor): Promise<AnnotationDto>
  removeAnnotation(id: string, actor: Actor): Promise<{ removed: true }>
  annotationsOf(sample: string): Promise<AnnotationDto[]>
  annotationLabels(input: AnnotationLabelsInput): Promise<AnnotationLabelDto[]>
  listViews(page: string): Promise<SavedViewDto[]>
  getView(id: number): Promise<SavedViewDto>
  saveView(input: SaveViewInput, actor: Actor): Promise<SavedViewDto>
  updateView(input: UpdateViewInput, actor: Actor): Promise<SavedViewDto>
  removeView(id: number, actor: Actor): Promise<{ removed: true }>
}

/** Beside `samples.list`. */
export const samplesPageProcedures = {
  extraKeys: procedure
    .input(ExtraKeysInput.prefault({}))
    .query(({ ctx, input }) => ctx.services.extraKeys(input)),
  count: procedure
    .input(SampleCountInput.prefault({}))
    .query(({ ctx, input }) => ctx.services.countSamples(input)),
  byBatch: procedure
    .input(SampleCountInput.prefault({}))
    .query(({ ctx, input }) => ctx.services.samplesByBatch(input)),
}

/** Labels and notes on samples. */
export const annotationsRouter = router({
  add: procedure
    .input(AddAnnotationInput)
    .mutation(({ ctx, input }) => ctx.services.addAnnotations(input, ctx.actor)),
  update: procedure
    .input(UpdateAnnotationInput)
    .mutation(({ ctx, input }) => ctx.services.updateAnnotation(input, ctx.actor)),
  remove: procedure
    .input(AnnotationRef)
    .mutation(({ ctx, input }) => ctx.services.removeAnnotation(input.id, ctx.actor)),
  of: procedure
    .input(AnnotationsOfInput)
    .query(({ ctx, input }) => ctx.services.annotationsOf(input.sample)),
  labels: procedure
    .input(AnnotationLabelsInput.prefault({}))
    .query(({ ctx, input }) => ctx.services.annotationLabels(input)),
})

/** Views of pages under a name. */
export const viewsRouter = router({
  list: procedure.input(ViewsInput).query(({ ctx, input }) => ctx.services.listViews(input.page)),
  get: procedure.input(ViewRef).query(({ ctx, input }) => ctx.services.getView(input.id)),
  save: procedure
    .input(SaveViewInput)
    .mutation(({ ctx, input }) => ctx.services.saveView(input, ctx.actor)),
  update: procedure
    .input(UpdateViewInput)
    .mutation(({ ctx, input }) => ctx.services.updateView(input, ctx.actor)),
  remove: procedure
    .input(ViewRef)
    .mutation(({ ctx, input }) => ctx.services.removeView(input.id, ctx.actor)),
})
