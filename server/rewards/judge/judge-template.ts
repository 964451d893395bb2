import { z } from 'zod'
import { JudgeParser } from './parser-spec.ts'
import { checkPlaceholders, valuePath } from './placeholders.ts'
import { unusableSchemaProblem } from './read-json.ts'

const Turn = z.strictObject({
  role: z.enum(['system', 'user', 'assistant']),
  content: z.string().max(100_000),
})

const template = z.strictObject({
  name: z
    .string()
    .min(1)
    .max(128)
    .regex(/^[\w.:-]+$/, 'use letters, digits, ".", "_", ":" and "-"'),
  kind: z
    .enum(['single', 'pair'])
    .default('single')
    .describe('single: one response is judged; pair: it is compared with another text'),
  turns: z.array(Turn).min(1).max(64),
  sampling: z
    .strictObject({
      temperature: z.number().min(0).max(2).default(0),
      topP: z.number().gt(0).max(1).optional(),
      maxTokens: z.int().min(1).default(1024),
      stop: z.array(z.string().min(1)).max(4).optional(),
      seed: z.int().min(0).optional(),
      chatTemplateKwargs: z.record(z.string(), z.json()).optional(),
    })
    .prefault({}),
  parser: JudgeParser,
  votes: z
    .strictObject({
      k: z.int().min(1).max(64).default(1),
      combine: z.enum(['mean', 'median', 'majority']).default('mean'),
    })
    .prefault({}),
  pair: z
    .strictObject({
      against: z.string().default('ground_truth').describe('Text to compare the response with'),
      swap: z
        .boolean()
        .default(true)
        .describe(
          'Whether each pair is judged in both orders; a verdict that changes with the order is a tie',
        ),
    })
    .prefault({}),
  price: z
    .strictObject({
      promptPer1k: z.number().min(0),
      completionPer1k: z.number().min(0),
      currency: z.string().min(1).max(8).default('USD'),
    })
    .nullable()
    .default(null)
    .describe('Price per 1,000 tokens'),
})

/**
 * The template of a judge: the conversation sent to a generative model, how its reply is parsed, and how votes are
 * combined.
 */
export const JudgeTemplate = template.superRefine((t, context) => {
  const refuse = (path: (string | number)[], message: string) =>
    context.addIssue({ code: 'custom', path, message })
  for (const { at, message } of checkPlaceholders(t)) refuse(['turns', at, 'content'], message)
  if (t.turns.at(-1)?.role === 'assistant') {
    refuse(['turns'], 'the last turn must not be the assistant’s, because the judge replies next')
  }
  if (t.kind === 'pair') {
    if (t.parser.kind !== 'verdict') refuse(['parser'], 'a pair needs the parser "verdict"')
    const { against } = t.pair
    if (valuePath(against) === null || against.startsWith('response') || against === 'prompt') {
      refuse(['pair', 'against'], 'must be "ground_truth" or "extra.<name>"')
    }
  }
  if (t.votes.k > 1 && t.sampling.temperature === 0) {
    refuse(['votes', 'k'], `${t.votes.k} votes at temperature 0 are equal: raise the temperature`)
  }
  if (t.votes.k > 1 && t.parser.kind === 'yes_no') {
    refuse(['votes', 'k'], 'yes_no reads the same probabilities in each vote: use one vote')
  }
  if (t.parser.kind === 'json' && t.parser.schema !== undefined) {
    const problem = unusableSchemaProblem(t.parser.schema)
    if (problem !== null) refuse(['parser', 'schema'], problem)
  }
})
export type JudgeTemplate = z.infer<typeof JudgeTemplate>
export type JudgeTemplateInput = z.input<typeof JudgeTemplate>

export function callsPerSample({ votes, kind, pair }: JudgeTemplate): number {
  return votes.k * (kind === 'pair' && pair.swap ? 2 : 1)
}
