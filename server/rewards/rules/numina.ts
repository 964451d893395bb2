import { z } from 'zod'
import { Budget, evaluate, NoValue, OutOfBudget } from '../../../packages/math-verify/src/index.ts'
import { equalByValue, gradeAnswer, gradedForms, readAnswer } from './grade-answer.ts'
import { endOfBraceGroup } from './python-text.ts'
import { defineRule, groundTruthText, RuleTimeoutError, versionOption } from './rule.ts'

/** CPU time limit of one comparison, ms. */
const deadlineMs = 100

/** Maximum number of characters of an answer that is compared by value, as in verl. */
const MAX_PREDICTION_CHARS = 1_000

/** Relative tolerance of verl's comparison of numbers. */
const tolerance = 1e-4

const before = ['answer:', 'answer is', 'answers are']
const after = ['is answer', 'is the answer', 'are answers', 'are the answers']
const introductions = 'be |is |are |=|: |get |be\n|is\n|are\n|:\n|get\n'.split('|')

/**
 * Extracts the answer of a response as verl's `match_answer` does. It narrows the response to the text after the last
 * "answer is", then to the last box in it, then to the text after the last "is", "=" or the like. A step without a
 * match changes nothing.
 */
export function matchNuminaAnswer(response: string): string {
  const part = new Part(response)
  for (const marker of before) part.startAfterLast(marker)
  for (const marker of after) part.endBeforeLast(marker)
  part.narrowToBox()
  part.endBeforeLast('. ')
  for (const marker of introductions) part.startAfterLast(marker)
  return part.text
}

/** A part of a response. It is narrowed without copies, because up to 26 searches run over 1 MB. */
class Part {
  private readonly whole: string
  private readonly lower: string
  private start = 0
  private end: number

  constructor(whole: string) {
    this.whole = whole
    const lower = whole.toLowerCase()
    // If a letter changes its length in lower case, only A–Z are lowered, so that positions stay the same.
    this.lower =
      lower.length === whole.length
        ? lower
        : whole.replace(/[A-Z]+/g, (letters) => letters.toLowerCase())
    this.end = whole.length
  }

  get text(): string {
    return this.whole.slice(this.start, this.end)
  }

  startAfterLast(marker: string): void {
    const at = this.last(marker)
    if (at < 0) return
    this.start = at + marker.length
    this.trim()
  }

  endBeforeLast(marker: string): void {
    const at = this.last(marker)
    if (at < 0) return
    this.end = at
    this.trim()
  }

  narrowToBox(): void {
    const { text } = this
    const boxed = text.lastIndexOf('\\boxed')
    const start = boxed >= 0 ? boxed : text.lastIndexOf('\\fbox')
    if (start < 0) return
    const end = endOfBraceGroup(text, start)
    const open = text.indexOf('{', start)
    if (end < 0 || open < 0 || open > end || text.slice(open + 1, end - 1).trim() === '') return
    this.end = this.start + end - 1
    this.start += open + 1
    this.trim()
  }

  private last(marker: string): number {
    const latest = this.end - marker.length
    const at = latest < this.start ? -1 : this.lower.lastIndexOf(marker, latest)
    return at < this.start ? -1 : at
  }

  private trim(): void {
    while (this.start < this.end && /\s/.test(this.whole[this.start]!)) this.start++
    while (this.end > this.start && /\s/.test(this.whole[this.end - 1]!)) this.end--
  }
}

/** verl's `math_equal`: compares as text, as numbers to four digits (or in percent), by parts, and by value. */
function isNearlyEqual(
  prediction: string,
  reference: string,
  pi: number | null,
  budget: Budget,
): boolean {
  budget.step()
  const given = normalized(prediction).slice(0, MAX_PREDICTION_CHARS)
  const wanted = normalized(reference)
  if (given.trim().toLowerCase() === wanted.trim().toLowerCase()) return true
  if (given.replaceAll(' ', '') === wanted.replaceAll(' ', '')) return true
  const givenNumber = numberOf(given)
  const wantedNumber = numberOf(wanted)
  if (givenNumber !== null && wantedNumber !== null) {
    return [wantedNumber / 100, wantedNumber, wantedNumber * 100].some((one) =>
      isClose(one, givenNumber),
    )
  }
  if (given === '') return false
  const bare = (text: string) => text.replace(/[[\](){}]/g, '')
  const isOneBracket =
    (given.startsWith('[') && given.endsWith(']') && !wanted.startsWith('(')) ||
    (given.startsWith('(') && given.endsWith(')') && !wanted.startsWith('['))
  if (isOneBracket && bare(given) === bare(wanted)) return true
  if (given.replace(/[{}()]/g, '') === wanted.replace(/[{}()]/g, '')) return true
  const isSameKind =
    /^[([]/.test(given) &&
    given[0] === wanted[0] &&
    /[)\]]$/.test(given) &&
    given.at(-1) === wanted.at(-1)
  const parts = isSameKind
    ? [given.slice(1, -1).split(','), wanted.slice(1, -1).split(',')]
    : [given.split(','), wanted.split(',')]
  const [givenParts, wantedParts] = parts as [string[], string[]]
  if (givenParts.length > 1 && givenParts.length === wantedParts.length) {
    return givenParts.every((part, at) =>
      isNearlyEqual(part.trim(), wantedParts[at]!.trim(), pi, budget),
    )
  }
  return equalByValue(given, wanted, budget) || closeByValue(given, wanted, pi, budget)
}

function closeByValue(given: string, wanted: string, pi: number | null, budget: Budget): boolean {
  const value = (text: string): number | null => {
    const replaced = pi === null ? text : text.replace(/\\pi(?![a-z])/g, `(${pi})`)
    const node = readAnswer(replaced, budget)
    if (node === null) return null
    try {
      const number = evaluate(node, new Map(), budget)
      return Array.isArray(number) || number.im !== 0 ? null : number.re
    } catch (error) {
      if (error instanceof NoValue) return null
      throw error
    }
  }
  const left = value(given)
  const right = left === null ? null : value(wanted)
  return left !== null && right !== null && isClose(right, left)
}

/** Removes a dollar sign, a percent sign or a base: `$5` → `5`, `5%` → `5`, `204_5` → `204`. */
function normalized(answer: string): string {
  if (/^\$\d/.test(answer)) return answer.slice(1)
  if (/^\d+(?:\.\d+)?\\?%$/.test(answer)) return answer.replace(/\\?%/, '')
  const base = /^(\d+)_/.exec(answer)
  return base ? base[1]! : answer
}

function numberOf(text: string): number | null {
  const plain = text.replaceAll('{,}', '').replaceAll(',', '').trim()
  return /^[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?$/.test(plain) ? Number(plain) : null
}

function isClose(a: number, b: number): boolean {
  if (a === b) return true
  if (!Number.isFinite(a) || !Number.isFinite(b)) return false
  return Math.abs(a - b) <= tolerance * Math.max(Math.abs(a), Math.abs(b))
}

/**
 * NuminaMath like verl's `prime_math`: 1 if PRM800K's grading accepts the answer, or if it equals the ground truth to
 * four digits, else 0. A percentage also equals its plain number, and π may be 3.14.
 */
export const numinaRule = defineRule({
  name: 'prime_math',
  title: 'NuminaMath (PRIME)',
  dataSources: [
    'numina_aops_forum',
    'numina_synthetic_math',
    'numina_amc_aime',
    'numina_synthetic_amc',
    'numina_cn_k12',
    'numina_olympiads',
  ],
  docs: {
    verlFile: '`prime_math/`',
    groundTruth: 'text',
    score: '1 if correct, otherwise 0',
    reason:
      '`equal`, `equal to four digits`, `different`, `no answer with a digit` (verdict: `no answer`)',
    extraInfo: '`acc`, `extracted`, `reason`',
  },
  kwargs: z.strictObject({ version: versionOption }),
  score({ solutionStr, groundTruth }) {
    const wanted = groundTruthText('prime_math', groundTruth)
    const answer = matchNuminaAnswer(solutionStr)
    const budget = new Budget(deadlineMs)
    let reason = 'different'
    try {
      if (gradeAnswer(answer, wanted, budget)) reason = 'equal'
      else if (wanted.length <= MAX_PREDICTION_CHARS) {
        const hasPi = answer.includes('\\pi') || wanted.includes('\\pi')
        const isClose = (hasPi ? [Math.PI, 3.14] : [null]).some((pi) =>
          isNearlyEqual(answer, wanted, pi, budget),
        )
        if (isClose) reason = 'equal to four digits'
      }
    } catch (error) {
      if (!(error instanceof OutOfBudget)) throw error
      throw new RuleTimeoutError(`prime_math: the comparison was abandoned: ${error.message}`)
    }
    const score = reason === 'different' ? 0 : 1
    // The answer of a response without any marker is the whole response, which may be too long to be stored.
    const extracted = answer.length <= MAX_PREDICTION_CHARS ? answer : null
    if (score === 0 && !/\d/.test(answer)) reason = 'no answer with a digit'
    const verdict = reason === 'no answer with a digit' ? 'no answer' : reason
    return { score, extra: { acc: score, extracted, reason }, extracted, reason, verdict }
  },
  explain({ solutionStr, groundTruth }) {
    const wanted = groundTruthText('prime_math', groundTruth)
    const answer = matchNuminaAnswer(solutionStr)
    const isWhole = answer.length > MAX_PREDICTION_CHARS
    return {
      where: isWhole
        ? 'the whole response, because nothing in it introduces an answer'
        : 'after the last "answer is", in the last box there, after the last "is", "=" or ":"',
      found: isWhole ? null : answer,
      forms: isWhole ? [] : gradedForms(answer, wanted),
      comparison: 'as text, once normalized, else by value, else as numbers to four digits',
    }
  },
})
