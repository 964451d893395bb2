import { z } from 'zod'
import { inWords } from '../../../packages/math-verify/src/in-words.ts'
import {
  Budget,
  compareAnswers,
  type Extracted,
  extractAnswer,
  OutOfBudget,
  type Verdict,
} from '../../../packages/math-verify/src/verify.ts'
import {
  defineRule,
  groundTruthText,
  RuleInputError,
  RuleTimeoutError,
  versionOption,
} from './rule.ts'

/** Ground truths that are kept read: a batch has the same one for all members of a group. */
const mostKept = 512
const kept = new Map<string, Extracted>()

/** CPU milliseconds of one comparison; real ones take 0.05 to 1, the first of a process 20. */
const usualDeadlineMs = 100

/**
 * Compares a response's answer with the ground truth as Math-Verify 0.8.0 does when upstream calls it: the ground truth
 * in a box, read as LaTeX; the response's answer as LaTeX or plain.
 * @throws RuleInputError for a ground truth without content, RuleTimeoutError
 */
export function verifyMath(
  solutionStr: string,
  groundTruth: string,
  options: { deadlineMs?: number; allowSetRelation?: boolean } = {},
): Verdict {
  try {
    const budget = new Budget(options.deadlineMs ?? usualDeadlineMs)
    const gold = goldAnswer(groundTruth, budget)
    const given = extractAnswer(solutionStr, ['plain', 'latex'], budget)
    return compareAnswers(gold, given, budget, {
      allowSetRelation: options.allowSetRelation ?? false,
    })
  } catch (error) {
    if (!(error instanceof OutOfBudget)) throw error
    throw new RuleTimeoutError(`math_verify: the comparison was given up: ${error.message}`)
  }
}

function goldAnswer(groundTruth: string, budget: Budget): Extracted {
  const known = kept.get(groundTruth)
  if (known) return known
  const gold = extractAnswer(`\\boxed{${groundTruth}}`, ['latex'], budget)
  if (gold.fallback === null) {
    throw new RuleInputError(
      gold.isTooLarge
        ? 'groundTruth is too large to be compared by rule math_verify'
        : 'groundTruth holds no answer that rule math_verify could compare',
      'Send the answer alone, as LaTeX without signs around it: "\\frac{1}{2}".',
    )
  }
  if (kept.size >= mostKept) kept.delete(kept.keys().next().value as string)
  kept.set(groundTruth, gold)
  return gold
}

/**
 * Mathematical equivalence, as upstream's `math_verify`: 1 where the answer is the ground truth by value, whatever way
 * it is written, else 0. No data source selects it upstream either: it is chosen by name.
 */
export const mathVerifyRule = defineRule({
  name: 'math_verify',
  title: 'Math-Verify (mathematical equivalence)',
  dataSources: [],
  kwargs: z.strictObject({
    deadline_ms: z
      .number()
      .min(1)
      .max(5_000)
      .default(usualDeadlineMs)
      .describe('CPU time limit of a comparison, in milliseconds'),
    timeout_score: z
      .number()
      .nullable()
      .default(null)
      .describe('Score after a comparison timeout; null: the sample fails with timeout'),
    allow_set_relation_comp: z
      .boolean()
      .default(false)
      .describe('Accept -2 \\le x \\le 7 as equal to x \\in [-2, 7]'),
    version: versionOption,
  }),
  score({ solutionStr, groundTruth }, options) {
    const wanted = groundTruthText('math_verify', groundTruth)
    let verdict: Omit<Verdict, 'reason'> & { reason: string }
    let score: number
    try {
      verdict = verifyMath(solutionStr, wanted, {
        deadlineMs: options.deadline_ms,
        allowSetRelation: options.allow_set_relation_comp,
      })
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
    let gold: Extracted
    let given: Extracted
    try {
      const budget = new Budget(options.deadline_ms)
      gold = goldAnswer(wanted, budget)
      given = extractAnswer(solutionStr, ['plain', 'latex'], budget)
    } catch (error) {
      if (!(error instanceof OutOfBudget)) throw error
      throw new RuleTimeoutError(`math_verify: reading was given up: ${error.message}`)
    }
    const isRead = gold.value !== null && given.value !== null
    return {
      where:
        'after "final answer is", then in boxes, then after "answer", then anywhere, the last first',
      found: given.text,
      forms: [
        {
          step: 'normalised LaTeX or number',
          response: given.text,
          groundTruth: gold.text ?? wanted,
        },
        {
          step: 'read as',
          response: given.value === null ? null : inWords(given.value),
          groundTruth: gold.value === null ? null : inWords(gold.value),
        },
      ],
      comparison: isRead
        ? 'by value: fractions exactly, decimals to six digits, sets in any order'
        : 'as text: one side could not be read as mathematics',
    }
  },
})
