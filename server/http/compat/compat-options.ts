import { z } from 'zod'
import { describeIssues } from '../../contract/describe-issues.ts'
import { RewardOpsError } from '../../errors.ts'
import { nearestName } from '../../rewards/nearest-name.ts'

/** Default pause after which samples without a step belong to the next step, in ms. */
const STEP_GAP_MS = 30_000

const text = z.string().min(1)
const list = z
  .string()
  .transform((names) => names.split(/[ ;]+/).filter((name) => name !== ''))
  .default([])

/** Query parameters of a dialect's URL. Lists are separated by `;`, because some trainers split URLs at commas. */
const Query = z.strictObject({
  model: text.optional().describe('the reward model that scores'),
  judge: text.optional().describe('the judge template of a generative model'),
  rule: text.optional().describe('a built-in rule, for every sample'),
  function: text.optional().describe('a reward function: its path, or path:name'),
  dataSource: text.optional().describe('selects the rule if nothing else is given'),
  manager: text.optional().describe('the reward manager'),
  kwargs: text
    .transform((json, context) => {
      try {
        return z.record(z.string(), z.json()).parse(JSON.parse(json))
      } catch {
        context.addIssue('must be a JSON object')
        return z.NEVER
      }
    })
    .optional()
    .describe('a JSON object'),
  split: z.enum(['train', 'val']).default('train'),
  timeoutMs: z.coerce.number().int().min(1).max(86_400_000).optional(),
  onFailure: z
    .union([z.literal('error'), z.coerce.number()])
    .default('error')
    .describe('the answer for a sample without a score: error (503), or a number'),
  stepGapMs: z.coerce.number().int().min(1).max(3_600_000).default(STEP_GAP_MS),
  extra: list.describe('keys of the extra info to return, if the protocol supports them'),
  format: z
    .enum(['number', 'object'])
    .default('number')
    .describe('slime: a bare number or an object'),
  groundTruth: text.optional().describe('nemo-gym: the task’s field with the ground truth'),
})

export type CompatOptions = z.output<typeof Query>

/** Parses the query of a dialect's URL. @throws RewardOpsError `invalid_input` with the parameter */
export function readCompatOptions(query: URLSearchParams): CompatOptions {
  const known = Object.keys(Query.shape)
  const given: Record<string, string> = {}
  for (const [key, value] of query) {
    if (!known.includes(key)) {
      const near = nearestName(key, known)
      throw new RewardOpsError(
        'invalid_input',
        `The URL has the unknown parameter ?${key.slice(0, 60)}=. ${near ? `Did you mean ${near}? ` : ''}Known: ${known.join(', ')}.`,
      )
    }
    if (key in given) {
      throw new RewardOpsError('invalid_input', `The URL has ?${key}= twice.`)
    }
    given[key] = value
  }
  const parsed = Query.safeParse(given)
  if (!parsed.success) {
    throw new RewardOpsError('invalid_input', `The URL: ${describeIssues(parsed.error)}`)
  }
  const options = parsed.data
  const scorers = (['model', 'rule', 'function'] as const).filter((key) => options[key])
  if (scorers.length > 1) {
    throw new RewardOpsError(
      'invalid_input',
      `The URL has ?${scorers.join('= and ?')}=. Give only one of them.`,
    )
  }
  return options
}

/** Returns the options as the `reward` field of `samples.score`. */
export function rewardOf(options: CompatOptions): Record<string, unknown> {
  const { model, judge, rule, manager, kwargs, timeoutMs } = options
  const at = options.function?.lastIndexOf(':') ?? -1
  const path = at > 0 ? options.function?.slice(0, at) : options.function
  const name = at > 0 ? options.function?.slice(at + 1) : undefined
  return {
    ...(manager === undefined ? {} : { manager }),
    ...(model === undefined ? {} : { model }),
    ...(judge === undefined ? {} : { judge }),
    ...(rule === undefined ? {} : { function: { name: rule } }),
    ...(path === undefined ? {} : { function: { path, ...(name ? { name } : {}) } }),
    ...(kwargs === undefined ? {} : { kwargs }),
    ...(timeoutMs === undefined ? {} : { timeoutMs }),
  }
}
