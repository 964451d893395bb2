import type { z } from 'zod'
import type { SampleInput } from '../../server/contract/trainer.ts'
import { gradedProblems } from '../../testkit/service/rollouts.ts'

export type Rollout = z.input<typeof SampleInput>

/**
 * Returns the graded problems as rollouts: one group per problem and one data source per model. Answers get GSM8K's
 * marker `####`, which the strict rule expects.
 */
export function readRollouts(): Rollout[] {
  return gradedProblems().flatMap(({ id, question, ground_truth, responses }) =>
    responses.map(({ model, response }) => ({
      uid: id,
      dataSource: model,
      prompt: question,
      response: response.replace(/(^|\n)A: /, '$1#### '),
      groundTruth: ground_truth,
      responseLength: Math.ceil(response.length / 4),
    })),
  )
}

/** Gives one in `every` rollouts a ground truth that the rule cannot read. */
export function withBroken(rollouts: readonly Rollout[], every: number): Rollout[] {
  return rollouts.map((rollout, at) =>
    at % every === every - 1 ? { ...rollout, groundTruth: { not: 'text' } } : rollout,
  )
}
