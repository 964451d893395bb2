import { PlannerInput } from '../contract/planner.ts'
import { lastingProcedure, router } from './trpc.ts'

/** What-if of the overlap of rewards and training. */
export const plannerRouter = router({
  plan: lastingProcedure
    .input(PlannerInput)
    .query(({ ctx, input }) => ctx.planner.plan(input, ctx.until)),
})
