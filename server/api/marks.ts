import { MarkInput, MarkRef, MarksInput, MarkUpdate } from '../contract/marks.ts'
import { procedure, router } from './trpc.ts'

/** Marks on a run's charts, made by people; those that the service sees by itself are in `runs.get`. */
export const marksRouter = router({
  list: procedure.input(MarksInput).query(({ ctx, input }) => ctx.marks.list(input.run)),
  create: procedure
    .input(MarkInput)
    .mutation(({ ctx, input }) => ctx.marks.create(input, ctx.actor.name)),
  update: procedure.input(MarkUpdate).mutation(({ ctx, input }) => ctx.marks.update(input)),
  remove: procedure.input(MarkRef).mutation(({ ctx, input }) => ctx.marks.remove(input.id)),
})
