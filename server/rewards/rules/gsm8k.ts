import { z } from 'zod'
import { lastCodePoints } from './python-text.ts'
import { defineRule, groundTruthText, versionOption } from './rule.ts'

/** Number of code points, at the end of a response, that are searched for an answer. */
const clipCodePoints = 300

const marked = /#### (-?[0-9.,]+)/g
const numeric = /-?[0-9.,]+/g

/**
 * Extracts the answer of a GSM8K response, or null if there is none. `strict` takes the number after the last `#### `,
 * without commas. `flexible` takes the last run of digits, points and commas that is more than a single point. The run
 * keeps its commas, so `1,234` does not equal `1234`. If all runs are single points, the answer is a point.
 */
export function extractGsm8kAnswer(
  solutionStr: string,
  method: 'strict' | 'flexible',
): string | null {
  const tail = lastCodePoints(solutionStr, clipCodePoints)
  if (method === 'strict') {
    let last: string | undefined
    for (const match of tail.matchAll(marked)) last = match[1]
    return last === undefined ? null : last.replaceAll(',', '')
  }
  const runs = tail.match(numeric)
  if (runs === null) return null
  return runs.findLast((run) => run !== '.') ?? runs[0]!
}

/**
 * GSM8K like verl's `gsm8k`: no answer scores 0, the correct one `score`, a wrong one `format_score`. Answers are
 * compared as text: `42.0` is not `42`.
 */
export const gsm8kRule = defineRule({
  name: 'gsm8k',
  title: 'GSM8K',
  dataSources: ['openai/gsm8k'],
  docs: {
    verlFile: '`reward_score/gsm8k.py`',
    groundTruth: 'text',
    score: 'option `score` if correct, option `format_score` if wrong, 0 without an answer',
    reason: '`equal`, `different`, `no answer`',
    extraInfo: '`acc`',
  },
  kwargs: z.strictObject({
    method: z
      .enum(['strict', 'flexible'])
      .default('strict')
      .describe('`strict`: the number after the last "#### "; `flexible`: the last number'),
    format_score: z.number().default(0).describe('Score of a wrong answer'),
    score: z.number().default(1).describe('Score of a correct answer'),
    version: versionOption,
  }),
  score({ solutionStr, groundTruth }, options) {
    const wanted = groundTruthText('gsm8k', groundTruth)
    const answer = extractGsm8kAnswer(solutionStr, options.method)
    let score = 0
    if (answer !== null) score = answer === wanted ? options.score : options.format_score
    const reason = answer === null ? 'no answer' : answer === wanted ? 'equal' : 'different'
    return { score, extra: { acc: score }, extracted: answer, reason }
  },
  explain({ solutionStr, groundTruth }, { method }) {
    const wanted = groundTruthText('gsm8k', groundTruth)
    const answer = extractGsm8kAnswer(solutionStr, method)
    const isStrict = method === 'strict'
    const found = isStrict
      ? ([...lastCodePoints(solutionStr, clipCodePoints).matchAll(marked)].at(-1)?.[1] ?? null)
      : answer
    return {
      where: `${isStrict ? 'the number after the last "#### "' : 'the last number'} in the last ${clipCodePoints} characters`,
      found,
      forms: [
        { step: 'unchanged', response: found, groundTruth: wanted },
        ...(isStrict ? [{ step: 'commas removed', response: answer, groundTruth: wanted }] : []),
      ],
      comparison: 'as text: 42.0 is not 42',
    }
  },
})
