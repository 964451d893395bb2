import {
  PromptCountsInput,
  PromptHeatInput,
  PromptHistoryInput,
  PromptListInput,
  PromptSampleInput,
  PromptStepsInput,
} from '../contract/prompts.ts'
import { byRun } from './procedure-meta.ts'
import { procedure, router } from './trpc.ts'

export const promptsRouter = router({
  /**
   * Lists the prompts of a run with their pass rates and visits.
   * @throws run_not_found
   * @example {"run": "gsm8k-grpo", "class": "regressed", "orderBy": "change"}
   */
  list: procedure
    .meta({ runFields: byRun })
    .input(PromptListInput)
    .query(({ ctx, input }) => ctx.prompts.list(input)),
  /**
   * Counts the prompts of a run by class and data source.
   * @throws run_not_found
   * @example {"run": "gsm8k-grpo"}
   */
  counts: procedure
    .meta({ runFields: byRun })
    .input(PromptCountsInput)
    .query(({ ctx, input }) => ctx.prompts.counts(input)),
  /**
   * Returns a prompt with its visits. A visit is one group of the prompt in one step.
   * @throws run_not_found, prompt_not_found
   * @example {"run": "gsm8k-grpo", "key": "0f343b0931126a20f133d67c2b018a3b"}
   */
  history: procedure
    .meta({ runFields: byRun })
    .input(PromptHistoryInput)
    .query(({ ctx, input }) => ctx.prompts.history(input)),
  /**
   * Returns the pass rates of a random sample of prompts by step, the easiest prompts first.
   * @throws run_not_found
   * @example {"run": "gsm8k-grpo", "limit": 120}
   */
  heat: procedure
    .meta({ runFields: byRun })
    .input(PromptHeatInput)
    .query(({ ctx, input }) => ctx.prompts.heat(input)),
  /**
   * Returns pass@k, best of k and the number of groups by pass rate for each step.
   * @throws run_not_found
   * @example {"run": "gsm8k-grpo"}
   */
  steps: procedure
    .meta({ runFields: byRun })
    .input(PromptStepsInput)
    .query(({ ctx, input }) => ctx.prompts.steps(input)),
  /**
   * Draws prompts for the next step, for curricula and dynamic sampling. Only prompts that an earlier step used can be
   * drawn.
   * @throws run_not_found, no_pass_rates
   * @example {"run": "gsm8k-grpo", "strategy": "thompson", "n": 128}
   */
  sample: procedure
    .meta({ runFields: byRun })
    .input(PromptSampleInput)
    .query(({ ctx, input }) => ctx.prompts.sample(input)),
})
