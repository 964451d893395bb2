import { type PlannerDraft, THEIR_EXPERIMENT } from './planner-url.ts'

/** Example settings. */
export const PLANNER_EXAMPLES: readonly { name: string; draft: PlannerDraft }[] = [
  { name: 'Async reward agent', draft: THEIR_EXPERIMENT },
  {
    name: 'A judge, long tails',
    draft: {
      ...THEIR_EXPERIMENT,
      prompts: '256',
      group: '8',
      spread: 'lognormal',
      first: '6',
      second: '0.9',
      failed: '2',
      rollout: '90',
      logprob: '30',
      update: '100',
      limits: '32, 128',
      servers: '1, 4',
    },
  },
  {
    name: 'Fast rules',
    draft: {
      ...THEIR_EXPERIMENT,
      prompts: '512',
      group: '8',
      first: '0.001',
      second: '0.02',
      rollout: '60',
      logprob: '20',
      update: '60',
      limits: '256, none',
    },
  },
]
