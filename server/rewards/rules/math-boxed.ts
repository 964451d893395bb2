import { z } from 'zod'
import { isMathEquivalent, mathForm } from './math-equivalence.ts'
import { endOfBraceGroup } from './python-text.ts'
import { defineRule, groundTruthText, versionOption } from './rule.ts'

const boxedWithSpace = '\\boxed '
const boxedWithBrace = '\\boxed{'

/**
 * Returns the last boxed expression, including its command, or null if there is none. If `\boxed` is followed by a
 * space anywhere, the last such `\boxed` counts, up to the next `$`. Otherwise the last `\boxed` counts, or else the
 * last `\fbox`, up to the end of its braces.
 */
export function lastBoxedExpression(text: string): string | null {
  const spaced = text.lastIndexOf(boxedWithSpace)
  if (spaced >= 0) {
    const dollar = text.indexOf('$', spaced)
    return text.slice(spaced, dollar < 0 ? undefined : dollar)
  }
  let start = text.lastIndexOf('\\boxed')
  if (start < 0) start = text.lastIndexOf('\\fbox')
  if (start < 0) return null
  const end = endOfBraceGroup(text, start)
  return end < 0 ? null : text.slice(start, end)
}

/**
 * The content of a `lastBoxedExpression`. Null where verl's `remove_boxed` fails, so that `\fbox{7}` and
 * `\boxed3{4}` score 0.
 */
function boxedContent(expression: string): string | null {
  if (expression.startsWith(boxedWithSpace)) return expression.slice(boxedWithSpace.length)
  return expression.startsWith(boxedWithBrace) ? expression.slice(boxedWithBrace.length, -1) : null
}

/** MATH like verl's `math_reward`: 1 if the last boxed answer is equivalent to the ground truth, else 0. */
export const mathBoxedRule = defineRule({
  name: 'math_reward',
  title: 'MATH (boxed)',
  dataSources: ['lighteval/MATH', 'DigitalLearningGmbH/MATH-lighteval', 'HuggingFaceH4/MATH-500'],
  docs: {
    verlFile: '`math_reward.py`',
    groundTruth: 'text',
    score: '1 if correct, otherwise 0',
    reason: '`equal`, `different`, `no answer`',
    extraInfo: '`acc`',
  },
  kwargs: z.strictObject({ version: versionOption }),
  score({ solutionStr, groundTruth }) {
    const wanted = groundTruthText('math_reward', groundTruth)
    const expression = lastBoxedExpression(solutionStr)
    const answer = expression === null ? null : boxedContent(expression)
    const isRight = answer !== null && isMathEquivalent(answer, wanted)
    const score = isRight ? 1 : 0
    const reason = isRight ? 'equal' : answer !== null ? 'different' : 'no answer'
    return { score, extra: { acc: score }, extracted: answer, reason }
  },
  explain({ solutionStr, groundTruth }) {
    const wanted = groundTruthText('math_reward', groundTruth)
    const expression = lastBoxedExpression(solutionStr)
    const answer = expression === null ? null : boxedContent(expression)
    const given = answer === null ? null : mathForm(answer)
    const truth = mathForm(wanted)
    const isText = truth === null || (answer !== null && given === null)
    return {
      where: 'the last \\boxed{…} of the response',
      found: expression,
      forms: [
        { step: 'content of the box', response: answer, groundTruth: wanted },
        ...(isText
          ? []
          : [
              {
                step: 'units, spaces and LaTeX variants removed',
                response: given,
                groundTruth: truth,
              },
            ]),
      ],
      comparison: isText ? 'as text: one side cannot be normalized' : 'as text, once normalized',
    }
  },
})
