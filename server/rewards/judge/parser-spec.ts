import { z } from 'zod'

const range = {
  min: z.number().optional().describe('Lowest score; a lower number is not a verdict'),
  max: z.number().optional().describe('Highest score; a higher number is not a verdict'),
}
const labels = z
  .record(z.string(), z.number())
  .optional()
  .describe('Scores of words, e.g. {"True": 1, "False": 0}; case does not matter')
const ordered = (spec: { min?: number | undefined; max?: number | undefined }) =>
  spec.min === undefined || spec.max === undefined || spec.min < spec.max
const ORDER = 'min must be below max'

/** `yes_no` reads token probabilities; the other parsers read the reply's text. Each returns one verdict or none. */
export const JudgeParser = z.discriminatedUnion('kind', [
  z
    .strictObject({
      kind: z.literal('number'),
      ...range,
      where: z
        .enum(['last_line', 'whole', 'anywhere'])
        .default('last_line')
        .describe('Position of the number: the last line with text, the whole reply, or anywhere'),
      label: z.string().min(1).optional().describe('Word before the number, e.g. "Score"'),
    })
    .refine(ordered, ORDER),
  z.strictObject({ kind: z.literal('bracketed'), ...range }).refine(ordered, ORDER),
  z.strictObject({ kind: z.literal('boxed'), ...range, labels }).refine(ordered, ORDER),
  z
    .strictObject({
      kind: z.literal('json'),
      ...range,
      path: z.string().min(1).default('score').describe('Path of the score, e.g. "grades.total"'),
      schema: z
        .record(z.string(), z.json())
        .optional()
        .describe('JSON schema of the reply, sent to the server and checked afterwards'),
      labels,
    })
    .refine(ordered, ORDER),
  z.strictObject({
    kind: z.literal('yes_no'),
    yes: z.array(z.string().min(1)).min(1).default(['yes']).describe('Words that mean yes'),
    no: z.array(z.string().min(1)).min(1).default(['no']).describe('Words that mean no'),
    at: z
      .enum(['first', 'last'])
      .default('first')
      .describe("Which word decides; first: the reply's first word; last: its last yes or no"),
    minMass: z
      .number()
      .min(0)
      .max(1)
      .default(0.5)
      .describe('Minimum probability of yes and no together'),
    topLogprobs: z
      .int()
      .min(1)
      .max(20)
      .default(20)
      .describe('Number of alternatives requested per token'),
  }),
  z.strictObject({
    kind: z.literal('verdict'),
    a: z.number().default(1).describe('Score of [[A]]'),
    b: z.number().default(0).describe('Score of [[B]]'),
    tie: z.number().default(0.5).describe('Score of [[C]]'),
  }),
])
export type JudgeParser = z.infer<typeof JudgeParser>
