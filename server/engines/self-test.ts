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

/** What is tested. */
export interface SelfTestTarget extends EngineTarget {
  /** Longest text the server takes, in tokens, where known: the long texts stay below it. */
  maxModelLen?: number | null
}

/** Verdicts that no look at long texts changes. */
const SERIOUS: ReadonlySet<SelfTestVerdict> = new Set([
  'constant',
  'label_unknown',
  'squashed',
  'inverted',
])

/** A fourth unlike text: arithmetic that is wrong. */
const ARITHMETIC: ScoreInput = {
  prompt: 'What is 37 × 3?',
  response: '37 × 3 = 37 + 37 + 37 = 113. Answer: \\boxed{113}',
}

/** Longest long text, in characters: some 6,000 tokens, beyond the usual limits of 512 to 4,096 and cheap to score. */
const LONG_LIMIT_CHARS = 24_000
/** Where the server's limit is unknown: some 1,500 tokens. */
const LONG_DEFAULT_CHARS = 6_000
/** English is at least so many characters a token; 0.9 of the limit leaves room for the chat template. */
const CHARS_A_TOKEN = 4
const LONG_SHARE = 0.9
/** Three ends, far apart in worth: a model of coarse arithmetic may give two long texts the same score, hardly three. */
const ENDS = [
  'So the answer is: Paris, on the river Seine.',
  'So the answer is: bananas, lol, nobody cares.',
  'I will not answer that. Go away.',
]

/**
 * Tests whether a server gives raw scores of whole texts that differ with the text, by six short and two or three long
 * texts at most. Its calls go one after the other. Never rejects: whatever keeps it from a verdict is `failed` with the
 * reason.
 */
export async function rawScoreSelfTest(
  engine: Engine,
  fetch: EngineFetch,
  target: SelfTestTarget,
): Promise<SelfTestResult> {
  if (!engine.scores) return untested('The engine returns no scores.')
  // One's own scorer may look at the data source and the ground truth; a made-up text would tell nothing.
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

/** An engine with an activation asks otherwise for it; the others build the same request. */
function canActivate(engine: Engine, target: EngineTarget): boolean {
  const body = (activated: boolean) =>
    String(engine.buildScoreRequest(GOOD, { ...target, activated }).body)
  return body(true) !== body(false)
}

/** Both answers activated; null where the server refuses to. */
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
  // A model that cannot tell the short answers apart cannot tell the long ones either.
  if (raw.good === raw.bad) return judged
  const scores: number[] = []
  for (const end of ENDS) {
    const answer = await ask(longText(end, maxModelLen), false)
    // Refused as too long: then nothing is cut in silence. Any other failure is not about the end of a text.
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

/** The question with a long answer of that end. */
function longText(end: string, maxModelLen: number | null): ScoreInput {
  const wanted =
    maxModelLen === null
      ? LONG_DEFAULT_CHARS
      : Math.min(LONG_LIMIT_CHARS, Math.floor(maxModelLen * LONG_SHARE * CHARS_A_TOKEN))
  const room = wanted - QUESTION.length - end.length
  const filler = FILLER.repeat(Math.max(1, Math.floor(room / FILLER.length)))
  return { prompt: QUESTION, response: filler + end }
}
