import { MarkInput, MarkRef, MarksInput, MarkUpdate, type RunMarkDto } from '../wire/marks.ts'
import { procedure, router } from './trpc.ts'

/** What the procedures of marks call. */
export interface MarkServices {
  listMarks(run: string): Promise<RunMarkDto[]>
  createMark(input: MarkInput, author: string): Promise<RunMarkDto>
  updateMark(input: MarkUpdate): Promise<RunMarkDto>
  removeMark(id: string): Promise<{ removed: true }>
}

/** Marks on a run's charts, made by people; those that the service sees by itself are in `runs.get`. */
export const marksRouter = router({
  list: procedure.input(MarksInput).query(({ ctx, input }) => ctx.services.listMarks(input.run)),
  create: procedure
    .input(MarkInput)
    .mutation(({ ctx, input }) => ctx.services.createMark(input, ctx.actor.name)),
  update: procedure.input(MarkUpdate).mutation(({ ctx, input }) => ctx.services.updateMark(input)),
  remove: procedure.input(MarkRef).mutation(({ ctx, input }) => ctx.services.removeMark(input.id)),
})
