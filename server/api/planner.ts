import { PlannerInput } from '../wire/planner.ts'
import { procedure, router } from './trpc.ts'

/** What-if of the overlap of rewards and training. */
export const plannerRouter = router({
  plan: procedure
    .input(PlannerInput)
    .query(({ ctx, input, signal }) => ctx.services.plan(input, signal)),
})
