import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { z } from 'zod'
import type { SampleInput } from '../../server/contract/trainer.ts'

/** 200 problems with the responses of eight models each; not part of the repository. */
const DATA = join(import.meta.dirname, '../../../shared/data/gsm8k-groups8/groups.first200.jsonl')

/** Whether the rollouts are there. */
export const haveRollouts = existsSync(DATA)

interface Problem {
  id: string
  question: string
  ground_truth: string
  responses: { model: string; response: string }[]
}

/** A sample as a trainer writes it. */
export type Rollout = z.input<typeof SampleInput>

/** All 1,600 responses, a problem a group, a model a data source; its answers are marked as the strict rule wants them. */
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

/** The same, of which the rule cannot read the ground truth of every `every`th. */
export function withBroken(rollouts: readonly Rollout[], every: number): Rollout[] {
  return rollouts.map((rollout, at) =>
    at % every === every - 1 ? { ...rollout, groundTruth: { not: 'text' } } : rollout,
  )
}
