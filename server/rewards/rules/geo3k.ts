import { z } from 'zod'
import { Budget, OutOfBudget } from '../../../packages/math-verify/src/index.ts'
import { gradeAnswer, gradedForms, lastBoxedContent } from './grade-answer.ts'
import { defineRule, groundTruthText, RuleTimeoutError, versionOption } from './rule.ts'

/** CPU time limit of one comparison, ms. */
const deadlineMs = 100

/** The text that is graded if a response has no box, as in verl. */
const noAnswer = 'None'

/**
 * Whether a response starts with `<think>…</think>` and has a box after it. Any later brace may close the box, as in
 * verl's pattern.
 */
export function hasThoughtAndBox(response: string): boolean {
  if (!response.startsWith('<think>')) return false
  const thought = response.indexOf('</think>', '<think>'.length)
  const box = thought < 0 ? -1 : response.indexOf('\\boxed{', thought)
  return box >= 0 && response.indexOf('}', box) >= 0
}

/** Scores Geometry3K as verl's `geo3k` does: 0.9 for the correct answer in the last box, and 0.1 for the format. */
export const geo3kRule = defineRule({
  name: 'geo3k',
  title: 'Geometry3K (answer and format)',
  dataSources: ['hiyouga/geometry3k'],
  docs: {
    verlFile: '`geo3k.py`, mathruler 0.1.0',
    groundTruth: 'text',
    score: '1 - `format_score` for a correct answer, plus `format_score` for the correct format',
    reason:
      '`equal`, `different` or `no boxed answer` (verdict: `no answer`), then `format kept` or `format not kept` (not in the verdict)',
    extraInfo: '`acc`, `accuracy`, `format`, `extracted`, `reason`',
  },
  kwargs: z.strictObject({
    use_boxed: z
      .boolean()
      .default(true)
      .describe('true: the answer is the last `\\boxed{}`; false: it is the whole response'),
    format_score: z
      .number()
      .min(0)
      .max(1)
      .default(0.1)
      .describe(
        'Score for the format `<think>…</think>` followed by a `\\boxed{}`. A correct answer adds 1 - `format_score`',
      ),
    version: versionOption,
  }),
  score({ solutionStr, groundTruth }, options) {
    const wanted = groundTruthText('geo3k', groundTruth)
    const extracted = options.use_boxed ? lastBoxedContent(solutionStr) : solutionStr.trim()
    const format = hasThoughtAndBox(solutionStr) ? 1 : 0
    let isRight: boolean
    try {
      isRight = gradeAnswer(extracted ?? noAnswer, wanted, new Budget(deadlineMs))
    } catch (error) {
      if (!(error instanceof OutOfBudget)) throw error
      throw new RuleTimeoutError(`geo3k: the comparison was abandoned: ${error.message}`)
    }
    const accuracy = isRight ? 1 : 0
    const score = (1 - options.format_score) * accuracy + options.format_score * format
    const form = format === 1 ? 'format kept' : 'format not kept'
    const verdict = extracted === null ? 'no answer' : isRight ? 'equal' : 'different'
    const reason = `${extracted === null ? 'no boxed answer' : verdict}, ${form}`
    const extra = { acc: score, accuracy, format, extracted, reason }
    return { score, extra, extracted, reason, verdict }
  },
  explain({ solutionStr, groundTruth }, options) {
    const wanted = groundTruthText('geo3k', groundTruth)
    const found = options.use_boxed ? lastBoxedContent(solutionStr) : solutionStr.trim()
    const keeps = hasThoughtAndBox(solutionStr)
    return {
      where: options.use_boxed ? 'the last \\boxed{…} of the response' : 'the whole response',
      found,
      forms: gradedForms(found, wanted),
      comparison: `as text, once normalized, else by value (${1 - options.format_score} of the score); the response ${
        keeps ? 'has' : 'lacks'
      } <think>…</think> followed by a box (${options.format_score} of the score)`,
    }
  },
})
