import { MarkInput, MarkRef, MarksInput, MarkUpdate } from '../contract/marks.ts'
import { procedure, router } from './trpc.ts'

/** Manual marks on a run's charts. `runs.get` returns the automatic ones. */
export const marksRouter = router({
  /**
   * Lists the marks on the charts of a run.
   * @throws run_not_found
   * @example {"run": "gsm8k-grpo"}
   */
  list: procedure.input(MarksInput).query(({ ctx, input }) => ctx.marks.list(input.run)),
  /**
   * Adds a mark at a step of a run. A run has at most 200 marks.
   * @throws run_not_found
   * @example {"run": "gsm8k-grpo", "step": 120, "label": "Lower learning rate"}
   */
  create: procedure
    .input(MarkInput)
    .mutation(({ ctx, input }) => ctx.marks.create(input, ctx.actor.name)),
  /**
   * Changes a mark.
   * @throws mark_not_found
   * @example {"id": "m4", "step": 121}
   */
  update: procedure.input(MarkUpdate).mutation(({ ctx, input }) => ctx.marks.update(input)),
  /**
   * Removes a mark.
   * @throws mark_not_found
   * @example {"id": "m4"}
   */
  remove: procedure.input(MarkRef).mutation(({ ctx, input }) => ctx.marks.remove(input.id)),
})
