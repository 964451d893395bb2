import { z } from 'zod'
import { countUpTo, pythonWordClass, splitOnSpace, strip } from './python-text.ts'
import {
  decimalText,
  defineRule,
  isRecord,
  RuleInputError,
  typeInWords,
  versionOption,
} from './rule.ts'

const opening = '<answer>'
const closing = '</answer>'

/**
 * Maximum number of opening `answer` tags, and of closing ones. In a response with more, a correct answer scores only a
 * quarter of `score`.
 */
const tagLimit = 10

/** The 32 characters of Python's `string.punctuation`. */
const punctuation = /[!-/:-@[-`{-~]/g
const article = new RegExp(`(?<![${pythonWordClass}])(?:a|an|the)(?![${pythonWordClass}])`, 'gu')

/** The trimmed text of the last `<answer>…</answer>`, or null. Opening tags inside an answer are part of it. */
export function extractTaggedAnswer(solutionStr: string): string | null {
  let answer: string | null = null
  let start = solutionStr.indexOf(opening)
  while (start >= 0) {
    const content = start + opening.length
    const end = solutionStr.indexOf(closing, content)
    if (end < 0) break
    answer = solutionStr.slice(content, end)
    start = solutionStr.indexOf(opening, end + closing.length)
  }
  return answer === null ? null : strip(answer)
}

/** SQuAD's normalization: lower case, no ASCII punctuation, no articles, single spaces. */
export function normalizeQaAnswer(answer: string): string {
  const text = answer.toLowerCase().replace(punctuation, '').replace(article, ' ')
  return splitOnSpace(text).join(' ')
}

/** The accepted answers in `{"target": "…"}` or `{"target": ["…", …]}`. Numbers become their decimal text. */
function targetsOf(groundTruth: unknown): string[] {
  const hint = 'Rule search_r1 needs groundTruth as {"target": "Paris"} or {"target": ["Paris"]}.'
  if (groundTruth === undefined || groundTruth === null) {
    throw new RuleInputError('groundTruth is missing, and rule search_r1 scores by it', hint)
  }
  if (!isRecord(groundTruth)) {
    const found = typeInWords(groundTruth)
    throw new RuleInputError(`groundTruth is ${found}, rule search_r1 needs an object`, hint)
  }
  const target = Object.hasOwn(groundTruth, 'target') ? groundTruth.target : undefined
  const targets = Array.isArray(target) ? target : [target]
  if (targets.length === 0) {
    // If there is no accepted answer, verl scores every response 0.
    throw new RuleInputError('groundTruth.target is empty: no answer could be correct', hint)
  }
  return targets.map((answer) => {
    if (typeof answer === 'string') return answer
    if (typeof answer === 'number' && Number.isFinite(answer)) return decimalText(answer)
    const found = typeInWords(answer)
    const path = Array.isArray(target)
      ? 'groundTruth.target holds an entry that'
      : 'groundTruth.target'
    throw new RuleInputError(`${path} is ${found}, rule search_r1 needs a string`, hint)
  })
}

/**
 * Search QA like verl's `search_r1_like_qa_em`: a response scores 0 without a tagged answer, `score` with a correct
 * answer and `format_score` with a wrong answer. With `method: "subem"`, an accepted answer only has to occur in the
 * response's answer, and the number of tags does not matter.
 */
export const searchR1Rule = defineRule({
  name: 'search_r1',
  title: 'Search QA (exact match)',
  dataSources: [
    'searchR1_nq',
    'searchR1_triviaqa',
    'searchR1_popqa',
    'searchR1_hotpotqa',
    'searchR1_2wikimultihopqa',
    'searchR1_musique',
    'searchR1_bamboogle',
  ],
  docs: {
    verlFile: '`search_r1_like_qa_em.py`',
    groundTruth: '`{"target": "…"}`, where the target can also be a list of texts',
    score: 'option `score` if correct, option `format_score` if wrong, 0 without an answer',
    reason: '`equal`, `contained`, `different`, `no answer`, `equal, too many answer tags`',
    extraInfo: '`acc`',
  },
  kwargs: z.strictObject({
    method: z
      .enum(['em', 'subem', 'strict'])
      .default('em')
      .describe(
        'An answer is correct if it equals a target (`em`), or if it contains a target (`subem`). `strict` is the same as `em`',
      ),
    format_score: z.number().default(0).describe('Score of a wrong answer'),
    score: z
      .number()
      .default(1)
      .describe(
        'Score of a correct answer. With `em`, a response with more than ten answer tags gets a quarter of it',
      ),
    version: versionOption,
  }),
  score({ solutionStr, groundTruth }, options) {
    const targets = targetsOf(groundTruth)
    const answer = extractTaggedAnswer(solutionStr)
    let score = 0
    let reason = 'no answer'
    if (answer !== null) {
      const given = normalizeQaAnswer(answer)
      const isPart = options.method === 'subem'
      const isRight = targets.some((target) => {
        const accepted = normalizeQaAnswer(target)
        return isPart ? given.includes(accepted) : given === accepted
      })
      score = isRight ? options.score : options.format_score
      reason = isRight ? (isPart ? 'contained' : 'equal') : 'different'
      if (isRight && !isPart && hasTooManyTags(solutionStr)) {
        score /= 4
        reason = 'equal, too many answer tags'
      }
    }
    return { score, extra: { acc: score }, extracted: answer, reason }
  },
  explain({ solutionStr, groundTruth }, options) {
    const targets = targetsOf(groundTruth)
    const found = extractTaggedAnswer(solutionStr)
    const isPart = options.method === 'subem'
    const given = found === null ? null : normalizeQaAnswer(found)
    // If one of the accepted answers matches, only that one is shown.
    const accepted = targets.find((target) => {
      const one = normalizeQaAnswer(target)
      return given !== null && (isPart ? given.includes(one) : given === one)
    })
    const shown = accepted === undefined ? targets : [accepted]
    return {
      where: 'the last <answer>…</answer> of the response',
      found,
      forms: [
        { step: 'unchanged', response: found, groundTruth: shown.join(' | ') },
        {
          step: 'lower case, without punctuation and articles',
          response: given,
          groundTruth: shown.map(normalizeQaAnswer).join(' | '),
        },
      ],
      comparison: isPart
        ? 'an accepted answer occurs in the given one'
        : `equal to one of ${targets.length} accepted answers; a quarter of the score with more than ${tagLimit} answer tags`,
    }
  },
})

function hasTooManyTags(text: string): boolean {
  const enough = tagLimit + 1
  return countUpTo(text, opening, enough) === enough || countUpTo(text, closing, enough) === enough
}
