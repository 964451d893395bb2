import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { z } from 'zod'
import type { SampleInput } from '../../server/contract/trainer.ts'

/** 200 problems with the responses of eight models each. The file is not part of the repository. */
const DATA = join(import.meta.dirname, '../../../shared/data/gsm8k-groups8/groups.first200.jsonl')

/** Whether the rollouts are available. */
export const haveRollouts = existsSync(DATA)

interface Problem {
  id: string
  question: string
  ground_truth: string
  responses: { model: string; response: string }[]
}

/** A sample as a trainer submits it. */
export type Rollout = z.input<typeof SampleInput>

/** Reads all 1,600 responses: one group per problem, one data source per model, answers in the strict rule's format. */
export function readRollouts(): Rollout[] {
  return readFileSync(DATA, 'utf8')
    .trim()
    .split('\n')
    .flatMap((line) => {
      const { id, question, ground_truth, responses } = JSON.parse(line) as Problem
      return responses.map(({ model, response }) => ({
        uid: id,
        dataSource: model,
        prompt: question,
        response: response.replace(/(^|\n)A: /, '$1#### '),
        groundTruth: ground_truth,
        responseLength: Math.ceil(response.length / 4),
      }))
    })
}

/** Copies rollouts and gives every `every`th a ground truth that the rule cannot read. */
export function withBroken(rollouts: readonly Rollout[], every: number): Rollout[] {
  return rollouts.map((rollout, at) =>
    at % every === every - 1 ? { ...rollout, groundTruth: { not: 'text' } } : rollout,
  )
}
