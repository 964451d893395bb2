import {
  AddAnnotationInput,
  AnnotationLabelsInput,
  AnnotationRef,
  AnnotationsOfInput,
  UpdateAnnotationInput,
} from '../contract/annotations.ts'
import { ExtraKeysInput, FirstLinesInput, SampleCountInput } from '../contract/sample-extras.ts'
import { SaveViewInput, UpdateViewInput, ViewRef, ViewsInput } from '../contract/saved-views.ts'
import { byFilter } from './procedure-meta.ts'
import { procedure, router } from './trpc.ts'

export const samplesPageProcedures = {
  /**
   * Lists the keys of the reward extra info in the newest 5,000 batches, with types, ranges and frequent strings.
   * @throws batch_not_found
   * @example {"run": "gsm8k-grpo"}
   */
  extraKeys: procedure
    .meta({ runFields: byFilter })
    .input(ExtraKeysInput.prefault({}))
    .query(({ ctx, input }) => ctx.samples.extraKeys(input)),
  /**
   * Returns the first lines of the prompts and responses of at most 100 samples. Samples without texts are left out.
   * @throws batch_not_found
   * @example {"ids": ["b12-3", "b12-4"]}
   */
  firstLines: procedure
    .meta({ runFields: { batches: ['ids'] } })
    .input(FirstLinesInput)
    .query(({ ctx, input }) => ctx.samples.firstLines(input.ids)),
  /**
   * Counts the samples that match a filter.
   * @throws batch_not_found
   * @example {"run": "gsm8k-grpo", "status": "failed"}
   */
  count: procedure
    .meta({ runFields: byFilter })
    .input(SampleCountInput.prefault({}))
    .query(({ ctx, input }) => ctx.samples.count(input)),
  /**
   * Counts, for each batch, the samples that match a filter, over the newest 10,000 batches.
   * @throws batch_not_found
   * @example {"run": "gsm8k-grpo", "status": "failed"}
   */
  byBatch: procedure
    .meta({ runFields: byFilter })
    .input(SampleCountInput.prefault({}))
    .query(({ ctx, input }) => ctx.samples.byBatch(input)),
}

export const annotationsRouter = router({
  /**
   * Adds a label and a note to samples: at most 1,000 ids, or the newest 10,000 matches of a filter.
   * @example {"samples": ["b12-3"], "label": "reward hack", "note": "The answer is in the prompt."}
   */
  add: procedure
    .meta({ role: 'trainer', audit: null })
    .input(AddAnnotationInput)
    .mutation(({ ctx, input }) => ctx.annotations.add(input, ctx.actor)),
  /**
   * Changes an annotation. Only its author or an admin may change it.
   * @throws annotation_not_found, not_the_author
   * @example {"id": "a7", "label": "correct"}
   */
  update: procedure
    .meta({ role: 'trainer', audit: null })
    .input(UpdateAnnotationInput)
    .mutation(({ ctx, input }) => ctx.annotations.update(input, ctx.actor)),
  /**
   * Removes an annotation. Only its author or an admin may remove it.
   * @throws annotation_not_found, not_the_author
   * @example {"id": "a7"}
   */
  remove: procedure
    .meta({ role: 'trainer', audit: null })
    .input(AnnotationRef)
    .mutation(({ ctx, input }) => ctx.annotations.remove(input.id, ctx.actor)),
  /**
   * Lists the annotations of a sample.
   * @throws batch_not_found, sample_not_found
   * @example {"sample": "b12-3"}
   */
  of: procedure
    .meta({ runFields: { batches: ['sample'] } })
    .input(AnnotationsOfInput)
    .query(({ ctx, input }) => ctx.annotations.of(input.sample)),
  /**
   * Lists the labels in use, each with its number of samples.
   * @throws batch_not_found
   * @example {"run": "gsm8k-grpo"}
   */
  labels: procedure
    .meta({ runFields: byFilter })
    .input(AnnotationLabelsInput.prefault({}))
    .query(({ ctx, input }) => ctx.annotations.labels(input)),
})

export const viewsRouter = router({
  /**
   * Lists the saved views of a page.
   * @example {"page": "samples"}
   */
  list: procedure.input(ViewsInput).query(({ ctx, input }) => ctx.savedViews.list(input.page)),
  /**
   * Returns a saved view.
   * @throws view_not_found
   * @example {"id": 3}
   */
  get: procedure.input(ViewRef).query(({ ctx, input }) => ctx.savedViews.get(input.id)),
  /**
   * Saves a view.
   * @throws view_exists, too_many_views
   * @example {"page": "samples", "name": "Failures", "state": "status=failed"}
   */
  save: procedure
    .meta({ role: 'trainer', audit: null })
    .input(SaveViewInput)
    .mutation(({ ctx, input }) => ctx.savedViews.save(input, ctx.actor)),
  /**
   * Changes a saved view. Only its author or an admin may change it.
   * @throws view_not_found, view_exists, not_the_author
   * @example {"id": 3, "name": "Timeouts"}
   */
  update: procedure
    .meta({ role: 'trainer', audit: null })
    .input(UpdateViewInput)
    .mutation(({ ctx, input }) => ctx.savedViews.update(input, ctx.actor)),
  /**
   * Removes a saved view. Only its author or an admin may remove it.
   * @throws view_not_found, not_the_author
   * @example {"id": 3}
   */
  remove: procedure
    .meta({ role: 'trainer', audit: null })
    .input(ViewRef)
    .mutation(({ ctx, input }) => ctx.savedViews.remove(input.id, ctx.actor)),
})
