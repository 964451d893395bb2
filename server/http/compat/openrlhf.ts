import { z } from 'zod'
import type { Dialect } from './dialect.ts'
import { parseBody } from './parse-body.ts'

const many = <T extends z.ZodType>(of: T) => z.union([z.array(of), of.transform((one) => [one])])

const Body = z.looseObject({
  query: many(z.string()),
  prompts: many(z.string()).nullish(),
  labels: z.array(z.unknown()).nullish(),
})

/**
 * OpenRLHF's `--reward.remote_url` (formerly `--remote_rm_url`). A request has a list of texts, each a prompt followed
 * by its response. The list is empty if the trainer splits one text over several URLs. All samples have the same keys
 * in `extra_logs`, because the trainer concatenates them.
 * Source: openrlhf/utils/agent.py, openrlhf/cli/serve_rm.py.
 */
export const openrlhf: Dialect = {
  name: 'openrlhf',
  scorePath: '',
  carriesFailure: false,
  others: {},

  read(body) {
    const { query, prompts, labels } = parseBody(Body, body)
    return query.map((whole, i) => {
      const prompt = prompts?.[i] ?? ''
      return {
        uid: null,
        dataSource: null,
        prompt,
        response: whole.startsWith(prompt) ? whole.slice(prompt.length) : whole,
        groundTruth: labels?.[i] ?? null,
      }
    })
  },

  answer(_body, ends, { extra }) {
    const rewards = ends.map((end) => end.reward)
    const logs: Record<string, number[]> = { rm_failed: ends.map((end) => (end.failed ? 1 : 0)) }
    for (const key of extra) {
      logs[key] = ends.map(({ result }) => numberOf(result.rewardExtraInfo?.[key]) ?? 0)
    }
    return { rewards, scores: rewards, extra_logs: logs }
  },
}

export function numberOf(value: unknown): number | null {
  if (typeof value === 'boolean') return value ? 1 : 0
  return typeof value === 'number' && Number.isFinite(value) ? value : null
}
