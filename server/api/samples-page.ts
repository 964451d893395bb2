import {
  AddAnnotationInput,
  AnnotationLabelsInput,
  AnnotationRef,
  AnnotationsOfInput,
  UpdateAnnotationInput,
} from '../contract/annotations.ts'
import { ExtraKeysInput, SampleCountInput } from '../contract/sample-extras.ts'
import { SaveViewInput, UpdateViewInput, ViewRef, ViewsInput } from '../contract/saved-views.ts'
import { procedure, router } from './trpc.ts'

/** Beside `samples.list`. */
export const samplesPageProcedures = {
  extraKeys: procedure
    .input(ExtraKeysInput.prefault({}))
    .query(({ ctx, input }) => ctx.samples.extraKeys(input)),
  count: procedure
    .input(SampleCountInput.prefault({}))
    .query(({ ctx, input }) => ctx.samples.count(input)),
  byBatch: procedure
    .input(SampleCountInput.prefault({}))
    .query(({ ctx, input }) => ctx.samples.byBatch(input)),
}

/** Labels and notes on samples. */
export const annotationsRouter = router({
  add: procedure
    .input(AddAnnotationInput)
    .mutation(({ ctx, input }) => ctx.annotations.add(input, ctx.actor)),
  update: procedure
    .input(UpdateAnnotationInput)
    .mutation(({ ctx, input }) => ctx.annotations.update(input, ctx.actor)),
  remove: procedure
    .input(AnnotationRef)
    .mutation(({ ctx, input }) => ctx.annotations.remove(input.id, ctx.actor)),
  of: procedure
    .input(AnnotationsOfInput)
    .query(({ ctx, input }) => ctx.annotations.of(input.sample)),
  labels: procedure
    .input(AnnotationLabelsInput.prefault({}))
    .query(({ ctx, input }) => ctx.annotations.labels(input)),
})

/** Views of pages under a name. */
export const viewsRouter = router({
  list: procedure.input(ViewsInput).query(({ ctx, input }) => ctx.savedViews.list(input.page)),
  get: procedure.input(ViewRef).query(({ ctx, input }) => ctx.savedViews.get(input.id)),
  save: procedure
    .input(SaveViewInput)
    .mutation(({ ctx, input }) => ctx.savedViews.save(input, ctx.actor)),
  update: procedure
    .input(UpdateViewInput)
    .mutation(({ ctx, input }) => ctx.savedViews.update(input, ctx.actor)),
  remove: procedure
    .input(ViewRef)
    .mutation(({ ctx, input }) => ctx.savedViews.remove(input.id, ctx.actor)),
})
