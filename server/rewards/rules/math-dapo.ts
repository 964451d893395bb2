import { z } from 'zod'
import { normalizeFinalAnswer } from './dapo-normalize.ts'
import { endOfBraceGroup, lastCodePoints, pythonSpaceClass } from './python-text.ts'
import { defineRule, groundTruthText, versionOption } from './rule.ts'

/** Number of code points at a response's end that are searched for an answer. MATH-500's longest answer has 159. */
const clipCodePoints = 300
const boxCodePoints = 100

const invalid = '[INVALID]'
const boxed = '\\boxed{'

/**
 * An answer line. The pattern may take quadratic time, but runs only on the last `clipCodePoints` code points. With the
 * flags `iu`, the letter `s` also matches U+017F, as in Python. The space class includes line breaks, because the
 * answer may be on the next line.
 */
const answerLine = new RegExp(`answer[${pythonSpaceClass}]*:[${pythonSpaceClass}]*([^\\n]+)`, 'giu')

interface Verdict {
  correct: boolean
  pred: string | null
  /** The answer as written. */
  raw: string | null
  by: 'answer line' | 'box'
}

function verifyMinerva(tail: string, groundTruth: string): Verdict {
  let raw: string | null = null
  for (const match of tail.matchAll(answerLine)) raw = match[1]!
  const pred = normalizeFinalAnswer(raw ?? invalid)
  return { correct: pred === normalizeFinalAnswer(groundTruth), pred, raw, by: 'answer line' }
}

function verifyStrictBox(
  tail: string,
  groundTruth: string,
  pauseTokensIndex: readonly number[] | null,
): Verdict {
  const near =
    pauseTokensIndex === null
      ? lastCodePoints(tail, boxCodePoints)
      : // The index is negative if the pause is near the start. It then counts from the end, as in Python.
        [...tail].slice(pauseTokensIndex.at(-1)! - boxCodePoints).join('')
  const start = near.lastIndexOf(boxed)
  const end = start < 0 ? -1 : endOfBraceGroup(near, start)
  const pred = end < 0 ? null : near.slice(start + boxed.length, end - 1)
  return { correct: pred === groundTruth, pred, raw: pred, by: 'box' }
}

interface DapoOptions {
  strict_box_verify: boolean
  pause_tokens_index: readonly number[] | null
  version: '2026-01' | '2026-08'
}

function verdictOf(solutionStr: string, wanted: string, options: DapoOptions): Verdict {
  const tail = lastCodePoints(solutionStr, clipCodePoints)
  const box = () => verifyStrictBox(tail, wanted, options.pause_tokens_index)
  const verdict = options.strict_box_verify ? box() : verifyMinerva(tail, wanted)
  if (options.version === '2026-08' && !options.strict_box_verify && verdict.pred === invalid) {
    const fallback = box()
    if (fallback.pred !== null) return fallback
  }
  return verdict
}

/**
 * DAPO's math rule, which scores as verl's `math_dapo` does. It returns 1 or -1, with `acc` and the extracted answer as
 * `pred`. In verl's version 2026-01 a response without `Answer:` is wrong. Since version 2026-08 its boxed answer
 * counts. Two peculiarities of verl are kept: a ground truth of `[INVALID]` equals every response without an answer,
 * and `1,2` equals `12`.
 */
export const mathDapoRule = defineRule({
  name: 'math_dapo',
  title: 'DAPO math',
  dataSources: ['math_dapo', 'math', 'math_dapo_reasoning', 'aime*'],
  docs: {
    verlFile: '`math_dapo.py`',
    groundTruth: 'text',
    score: '1 if correct, otherwise -1',
    reason: '`equal`, `different`, `no answer`',
    extraInfo: '`score`, `acc` (true or false), `pred`',
  },
  kwargs: z.strictObject({
    strict_box_verify: z
      .boolean()
      .default(false)
      .describe(
        'Accept only an answer in a `\\boxed{}` in the last 100 characters of the response, and compare it exactly',
      ),
    pause_tokens_index: z
      .array(z.int())
      .length(4)
      .nullable()
      .default(null)
      .describe(
        'With `strict_box_verify`: four positions in the last 300 characters of the response. The search for the box ' +
          'begins 100 characters before the fourth position',
      ),
    version: versionOption,
  }),
  score({ solutionStr, groundTruth }, options) {
    const { correct, pred } = verdictOf(
      solutionStr,
      groundTruthText('math_dapo', groundTruth),
      options,
    )
    const score = correct ? 1 : -1
    const found = pred === null || pred === invalid ? null : pred
    const reason = correct ? 'equal' : found === null ? 'no answer' : 'different'
    return { score, extra: { score, acc: correct, pred }, extracted: found, reason }
  },
  explain({ solutionStr, groundTruth }, options) {
    const wanted = groundTruthText('math_dapo', groundTruth)
    const { by, raw, pred } = verdictOf(solutionStr, wanted, options)
    const isBox = by === 'box'
    const box = `the last \\boxed{…} in the last ${boxCodePoints} characters`
    const line = `the last "Answer: …" in the last ${clipCodePoints} characters`
    const both = `${line}; there is none, so ${box}`
    return {
      where: !isBox ? line : options.strict_box_verify ? box : both,
      found: raw,
      forms: [
        { step: 'unchanged', response: raw, groundTruth: wanted },
        ...(isBox
          ? []
          : [
              {
                step: 'normalized as Minerva’s final answers',
                response: raw === null ? null : pred,
                groundTruth: normalizeFinalAnswer(wanted),
              },
            ]),
      ],
      comparison: isBox ? 'as text, unchanged' : 'as text, once normalized',
    }
  },
})
