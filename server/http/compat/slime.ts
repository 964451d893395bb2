import { z } from 'zod'
import { Prompt } from '../../contract/trainer.ts'
import type { Dialect } from './dialect.ts'
import { parseBody } from './parse-body.ts'

const Body = z.looseObject({
  prompt: Prompt,
  response: z.string(),
  label: z.unknown().optional(),
  group_index: z.union([z.number(), z.string()]).nullish(),
  metadata: z.record(z.string(), z.unknown()).nullish(),
})

/**
 * `--rm-type remote_rm --rm-url` of slime and miles: one sample per request. The answer is a bare number, or with
 * `?format=object` an object for `--reward-key score`. `group_index` and `metadata` are read if a custom function
 * sends them.
 * Source: slime/rollout/rm_hub/__init__.py.
 */
export const slime: Dialect = {
  name: 'slime',
  scorePath: '',
  carriesFailure: false,
  others: {},

  read(body) {
    const { prompt, response, label, group_index, metadata } = parseBody(Body, body)
    return [
      {
        uid: group_index == null ? null : `g${group_index}`,
        dataSource: null,
        prompt,
        response,
        groundTruth: label ?? null,
        ...(metadata ? { extraInfo: metadata } : {}),
      },
    ]
  },

  answer(_body, ends, { format }) {
    const [end] = ends
    if (end === undefined) return null
    if (format === 'number') return end.reward
    const { result, reward, failed } = end
    return { ...result.rewardExtraInfo, score: reward, rm_failed: failed ? 1 : 0 }
  },
}
