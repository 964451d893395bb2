import { PlannerInput } from '../contract/planner.ts'
import { lastingProcedure, router } from './trpc.ts'

export const plannerRouter = router({
  /**
   * Predicts step times for several ways to overlap rewards and training.
   * @throws plan_too_large, batch_not_found, run_not_found, nothing_recorded, busy
   * @example {"source": {"kind": "batch", "batchId": "b12"}, "phases": {"rolloutMs": 60000, "logProbMs": 10000,
   * "updateMs": 30000}}
   */
  plan: lastingProcedure
    .input(PlannerInput)
    .query(({ ctx, input }) => ctx.planner.plan(input, ctx.until)),
})
