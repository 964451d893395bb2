import { type Asked, askScore } from './ask-score.ts'
import { BAD, calibrationOf, GOOD, MIXED, QUESTION } from './calibration.ts'
import type { Engine, EngineFetch, EngineScore, EngineTarget, ScoreInput } from './engine.ts'
import {
  failed,
  isProbability,
  type Judgement,
  judge,
  judgeConstant,
  judgeUntested,
  type Pair,
  type SelfTestResult,
  type SelfTestVerdict,
  show,
  untested,
} from './self-test-verdict.ts'

/** The server and model to test. */
export interface SelfTestTarget extends EngineTarget {
  /** The max context in tokens, if known: the long texts stay below it. */
  maxModelLen?: number | null
}

/** Verdicts that long texts cannot change. */
const SERIOUS: ReadonlySet<SelfTestVerdict> = new Set([
  'constant',
  'label_unknown',
  'squashed',
  'inverted',
])

/** The fourth text: wrong arithmetic. */
const ARITHMETIC: ScoreInput = {
  prompt: 'What is 37 × 3?',
  response: '37 × 3 = 37 + 37 + 37 = 113. Answer: \\boxed{113}',
}

/** The longest text, in characters: about 6,000 tokens, beyond the usual limits of 512 to 4,096 and cheap to score. */
const MAX_LONG_CHARS = 24_000
/** For a server with an unknown limit: about 1,500 tokens. */
const LONG_DEFAULT_CHARS = 6_000
/** English has at least so many characters per token; 0.9 of the limit leaves room for the chat template. */
const MIN_CHARS_PER_TOKEN = 4
const LONG_SHARE = 0.9
/**
 * Three endings of very different quality: with coarse arithmetic, a model may score two long texts alike, but hardly
 * three.
 */
const ENDS = [
  'So the answer is: Paris, on the river Seine.',
  'So the answer is: bananas, lol, nobody cares.',
  'I will not answer that. Go away.',
]

/**
 * Tests whether a server returns raw scores of whole texts that depend on the text, with six short and at most three
 * long texts, one after the other. Never rejects: any error becomes `failed` with the reason.
 */
export async function rawScoreSelfTest(
  engine: Engine,
  fetch: EngineFetch,
  target: SelfTestTarget,
): Promise<SelfTestResult> {
  if (!engine.scores) return untested('The engine returns no scores.')
  // A custom scorer may depend on the data source and the ground truth, so that fixed texts prove nothing.
  if (engine.name === 'http') return untested('Custom HTTP scorers are not tested.')
  const ask = (input: ScoreInput, activated: boolean) =>
    askScore(engine, fetch, { ...target, activated }, input)
  const asked: EngineScore[] = []
  for (const text of [GOOD, MIXED, BAD, ARITHMETIC]) {
    const answer = await ask(text, false)
    if (!answer.ok) {
      const { detail, routeMissing } = answer
      return {
        ...failed(detail, asked[0]?.score ?? null),
        ...(routeMissing ? { routeMissing } : {}),
      }
    }
    asked.push(answer)
  }
  const [good, mixed, bad] = asked as [EngineScore, EngineScore, EngineScore]
  const raw: Pair = { good: good.score, bad: bad.score }
  const scores = asked.map(({ score }) => score)
  const constant = scores.every((score) => score === good.score)
  const activated = !constant && canActivate(engine, target) ? await askPair(ask) : null
  const judged = !engine.selfTested
    ? judgeUntested(constant, good.score)
    : constant
      ? judgeConstant(engine, good.score)
      : judge(engine, target, raw, scores.every(isProbability), activated)
  const { verdict, detail } =
    SERIOUS.has(judged.verdict) || constant
      ? judged
      : await lookForTruncation(ask, raw, target.maxModelLen ?? null, judged)
  return {
    verdict,
    raw: raw.good,
    activated: activated?.good ?? null,
    calibration: raw.good,
    calibrations: [good, mixed].map(calibrationOf),
    detail,
  }
}

/** Whether the engine builds another request for activated scores. */
function canActivate(engine: Engine, target: EngineTarget): boolean {
  const body = (activated: boolean) =>
    String(engine.buildScoreRequest(GOOD, { ...target, activated }).body)
  return body(true) !== body(false)
}

/** Returns the activated scores of both answers; null: the server refuses them. */
async function askPair(ask: Ask): Promise<Pair | null> {
  const good = await ask(GOOD, true)
  if (!good.ok) return null
  const bad = await ask(BAD, true)
  return bad.ok ? { good: good.score, bad: bad.score } : null
}

type Ask = (input: ScoreInput, activated: boolean) => Promise<Asked>

async function lookForTruncation(
  ask: Ask,
  raw: Pair,
  maxModelLen: number | null,
  judged: Judgement,
): Promise<Judgement> {
  // A model that scores both short answers alike may score the long ones alike too.
  if (raw.good === raw.bad) return judged
  const scores: number[] = []
  for (const end of ENDS) {
    const answer = await ask(longText(end, maxModelLen), false)
    // A server that refuses long texts does not truncate them. Other failures do not concern truncation.
    if (!answer.ok) return judged
    scores.push(answer.score)
    if (answer.score !== scores[0]) return judged
  }
  return {
    verdict: 'truncated',
    detail: `Long responses that differ only at the end all score ${show(scores[0] as number)}: the server truncates texts.`,
  }
}

const FILLER = 'Let us look at the map of the country and think about it step by step. '

/** Returns the question with a long answer that has the given ending. */
function longText(end: string, maxModelLen: number | null): ScoreInput {
  const wanted =
    maxModelLen === null
      ? LONG_DEFAULT_CHARS
      : Math.min(MAX_LONG_CHARS, Math.floor(maxModelLen * LONG_SHARE * MIN_CHARS_PER_TOKEN))
  const room = wanted - QUESTION.length - end.length
  const filler = FILLER.repeat(Math.max(1, Math.floor(room / FILLER.length)))
  return { prompt: QUESTION, response: filler + end }
}
