import { MarkInput, MarkRef, MarksInput, MarkUpdate } from '../contract/marks.ts'
import { byRun, named } from './procedure-meta.ts'
import { procedure, router } from './trpc.ts'

/** Manual marks on a run's charts. `runs.get` returns the automatic ones. */
export const marksRouter = router({
  /**
   * Lists the marks on the charts of a run.
   * @throws run_not_found
   * @example {"run": "gsm8k-grpo"}
   */
  list: procedure
    .meta({ runFields: byRun })
    .input(MarksInput)
    .query(({ ctx, input }) => ctx.marks.list(input.run)),
  /**
   * Adds a mark at a step of a run. A run has at most 200 marks.
   * @throws run_not_found
   * @example {"run": "gsm8k-grpo", "step": 120, "label": "Lower learning rate"}
   */
  create: procedure
    .meta({ role: 'trainer', audit: { target: named('run') }, runFields: byRun })
    .input(MarkInput)
    .mutation(({ ctx, input }) => ctx.marks.create(input, ctx.actor.name)),
  /**
   * Changes a mark.
   * @throws mark_not_found
   * @example {"id": "m4", "step": 121}
   */
  update: procedure
    .meta({ role: 'trainer', audit: { target: named('id') } })
    .input(MarkUpdate)
    .mutation(({ ctx, input }) => ctx.marks.update(input)),
  /**
   * Removes a mark.
   * @throws mark_not_found
   * @example {"id": "m4"}
   */
  remove: procedure
    .meta({ role: 'trainer', audit: { target: named('id') } })
    .input(MarkRef)
    .mutation(({ ctx, input }) => ctx.marks.remove(input.id)),
})
