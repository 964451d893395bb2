import { z } from 'zod'
import {
  Budget,
  DEFAULT_DEADLINE_MS,
  formatAnswer,
  GroundTruthError,
  OutOfBudget,
  parse,
  parseGroundTruth,
  type Verdict,
  verifyResponse,
} from '../../../packages/math-verify/src/index.ts'
import {
  defineRule,
  groundTruthText,
  RuleInputError,
  RuleTimeoutError,
  versionOption,
} from './rule.ts'

/** Translates the errors of Math-Verify. @throws RuleInputError for an unusable ground truth, RuleTimeoutError */
function translated<T>(part: 'the comparison' | 'reading', run: () => T): T {
  try {
    return run()
  } catch (error) {
    if (error instanceof OutOfBudget) {
      throw new RuleTimeoutError(`math_verify: ${part} was abandoned: ${error.message}`)
    }
    if (!(error instanceof GroundTruthError)) throw error
    throw new RuleInputError(
      error.isTooLarge
        ? 'groundTruth is too large to be compared by rule math_verify'
        : 'groundTruth holds no answer that rule math_verify could compare',
      'Send the answer alone, as LaTeX without delimiters: "\\frac{1}{2}".',
    )
  }
}

/** Mathematical equivalence like verl's `math_verify`. As in verl, no data source selects this rule. */
export const mathVerifyRule = defineRule({
  name: 'math_verify',
  title: 'Math-Verify (mathematical equivalence)',
  dataSources: [],
  docs: {
    verlFile: '`math_verify.py`, Math-Verify 0.8.0',
    groundTruth: 'text',
    score: '1 if correct, otherwise 0',
    reason:
      '`equal`, `different`, `same text`, `no answer`, `not readable`, `too large`, `timeout` (only with `timeout_score`)',
    extraInfo: '`score`, `acc` (true or false), `extracted`, `reason`',
  },
  kwargs: z.strictObject({
    deadline_ms: z
      .number()
      .min(1)
      .max(5_000)
      .default(DEFAULT_DEADLINE_MS)
      .describe('CPU time limit of a comparison, in milliseconds'),
    timeout_score: z
      .number()
      .nullable()
      .default(null)
      .describe('Score if the comparison times out; null: the sample fails with `timeout`'),
    allow_set_relation_comp: z
      .boolean()
      .default(false)
      .describe(
        'Accept the answer `-2 \\le x \\le 7` for the ground truth `x \\in [-2, 7]`. The reverse is always accepted',
      ),
    version: versionOption,
  }),
  score({ solutionStr, groundTruth }, options) {
    const wanted = groundTruthText('math_verify', groundTruth)
    let verdict: Omit<Verdict, 'reason'> & { reason: string }
    let score: number
    try {
      verdict = translated('the comparison', () =>
        verifyResponse(solutionStr, wanted, {
          deadlineMs: options.deadline_ms,
          allowSetRelation: options.allow_set_relation_comp,
        }),
      )
      score = verdict.correct ? 1 : 0
    } catch (error) {
      if (!(error instanceof RuleTimeoutError) || options.timeout_score === null) throw error
      verdict = { correct: false, extracted: null, reason: 'timeout' }
      score = options.timeout_score
    }
    const { extracted, correct } = verdict
    const reason = verdict.reason.replaceAll('_', ' ')
    return { score, extra: { score, acc: correct, extracted, reason }, extracted, reason }
  },
  explain({ solutionStr, groundTruth }, options) {
    const wanted = groundTruthText('math_verify', groundTruth)
    const { gold, given } = translated('reading', () => {
      const budget = new Budget(options.deadline_ms)
      return {
        gold: parseGroundTruth(wanted, budget),
        given: parse(solutionStr, ['plain', 'latex'], budget),
      }
    })
    const isRead = gold.value !== null && given.value !== null
    return {
      where:
        'after "final answer is", else in a box, else after "answer", else anywhere; the last match is tried first',
      found: given.text,
      forms: [
        {
          step: 'normalized LaTeX or number',
          response: given.text,
          groundTruth: gold.text ?? wanted,
        },
        {
          step: 'parsed as',
          response: given.value === null ? null : formatAnswer(given.value),
          groundTruth: gold.value === null ? null : formatAnswer(gold.value),
        },
      ],
      comparison: isRead
        ? 'by value: fractions exactly, decimals to six digits, sets in any order'
        : 'as text: one side could not be parsed',
    }
  },
})
