import type { SelfTestVerdict as PoolVerdict } from '../contract/self-test-verdict.ts'
import { errorMessage, field } from './answer.ts'
import {
  askScore,
  BAD,
  type Calibration,
  type CalibrationAnswer,
  calibrationOf,
  GOOD,
  MIXED,
  QUESTION,
} from './calibration.ts'
import { buildChatRequest, parseChatResponse } from './chat.ts'
import type {
  Engine,
  EngineFetch,
  EngineName,
  EngineReply,
  EngineScore,
  EngineTarget,
  ScoreInput,
} from './engine.ts'

export interface SelfTestTarget extends EngineTarget {
  /** The max context in tokens, if known. The long texts stay below it. */
  maxModelLen?: number | null
}

/** Verdicts after which truncation is not tested. */
const SERIOUS: ReadonlySet<SelfTestVerdict> = new Set([
  'constant',
  'label_unknown',
  'squashed',
  'inverted',
])

const ARITHMETIC: ScoreInput = {
  prompt: 'What is 37 × 3?',
  response: '37 × 3 = 37 + 37 + 37 = 113. Answer: \\boxed{113}',
}

/**
 * Maximum length of a long text, in characters: about 6,000 tokens, which exceeds the usual limits of 512 to 4,096
 * tokens and is cheap to score.
 */
const MAX_LONG_CHARS = 24_000
/** Length of a long text for a server with an unknown max context, in characters: about 1,500 tokens. */
const LONG_DEFAULT_CHARS = 6_000
/**
 * English has at least {@link MIN_CHARS_PER_TOKEN} characters per token. A long text fills {@link LONG_SHARE} of the
 * max context, which leaves the rest to the chat template.
 */
const MIN_CHARS_PER_TOKEN = 4
const LONG_SHARE = 0.9
/**
 * Three endings of very different quality. With low-precision arithmetic, a model may score two long texts alike, but
 * three are very unlikely to score alike.
 */
const ENDS = [
  'So the answer is: Paris, on the river Seine.',
  'So the answer is: bananas, lol, nobody cares.',
  'I will not answer that. Go away.',
]

/**
 * Tests whether a server scores different texts differently, reads texts to their end and returns raw scores. It sends
 * at most six requests with short texts and three with long ones, sequentially. Never rejects: any error becomes
 * `failed` with the reason.
 */
export async function rawScoreSelfTest(
  engine: Engine,
  fetch: EngineFetch,
  target: SelfTestTarget,
): Promise<SelfTestResult> {
  if (!engine.scores) return untested('The engine returns no scores.')
  // A custom scorer may depend on the data source and the ground truth, so fixed texts prove nothing.
  if (engine.name === 'http') return untested('Custom HTTP scorers are not tested.')
  const ask = (input: ScoreInput, activated: boolean) =>
    askScore(engine, fetch, { ...target, activated }, input)
  const answers: EngineScore[] = []
  for (const text of [GOOD, MIXED, BAD, ARITHMETIC]) {
    const answer = await ask(text, false)
    if (!answer.ok) {
      const { detail, routeMissing } = answer
      return {
        ...failed(detail, answers[0]?.score ?? null),
        ...(routeMissing ? { routeMissing } : {}),
      }
    }
    answers.push(answer)
  }
  const [good, mixed, bad] = answers as [EngineScore, EngineScore, EngineScore]
  const raw: Pair = { good: good.score, bad: bad.score }
  const scores = answers.map(({ score }) => score)
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

function canActivate(engine: Engine, target: EngineTarget): boolean {
  const body = (activated: boolean) =>
    String(engine.buildScoreRequest(GOOD, { ...target, activated }).body)
  return body(true) !== body(false)
}

async function askPair(ask: Ask): Promise<Pair | null> {
  const good = await ask(GOOD, true)
  if (!good.ok) return null
  const bad = await ask(BAD, true)
  return bad.ok ? { good: good.score, bad: bad.score } : null
}

type Ask = (input: ScoreInput, activated: boolean) => Promise<CalibrationAnswer>

async function lookForTruncation(
  ask: Ask,
  raw: Pair,
  maxModelLen: number | null,
  judged: Judgment,
): Promise<Judgment> {
  // A model that scores both short answers alike may also score the long ones alike.
  if (raw.good === raw.bad) return judged
  const scores: number[] = []
  for (const end of ENDS) {
    const answer = await ask(longText(end, maxModelLen), false)
    // A server that refuses long texts does not truncate them. Other failures say nothing about truncation.
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

function longText(end: string, maxModelLen: number | null): ScoreInput {
  const wanted =
    maxModelLen === null
      ? LONG_DEFAULT_CHARS
      : Math.min(MAX_LONG_CHARS, Math.floor(maxModelLen * LONG_SHARE * MIN_CHARS_PER_TOKEN))
  const room = wanted - QUESTION.length - end.length
  const filler = FILLER.repeat(Math.max(1, Math.floor(room / FILLER.length)))
  return { prompt: QUESTION, response: filler + end }
}

/** The short request that a judge must answer to be `ready`. A judge that sleeps or is broken does not answer. */
const CHAT_QUESTION = 'Answer with the single word Yes.'
const CHAT_TOKENS = 8

/** Tests whether a judge answers a chat completion; the content does not matter. Never rejects. */
export async function chatSelfTest(
  engine: EngineName,
  fetch: EngineFetch,
  target: EngineTarget,
): Promise<SelfTestResult> {
  const chat = { messages: [{ role: 'user', content: CHAT_QUESTION }], maxTokens: CHAT_TOKENS }
  try {
    const { path, body } = buildChatRequest(engine, chat, target)
    const reply = await fetch(path, { method: 'POST', body: String(body) })
    const answer = parseChatResponse(reply.status, reply.headers, reply.bodyText)
    // A model that declines to answer, or returns only its reasoning, can chat.
    if (answer.ok || hasChoice(reply.bodyText)) return untested('A chat completion succeeded.')
    const detail = `The chat completion failed: ${answer.detail}`
    return { ...failed(detail, null), ...(isMissing(reply) ? { routeMissing: true } : {}) }
  } catch (error) {
    return failed(`The chat completion failed: ${(error as Error).message}`, null)
  }
}

function hasChoice(bodyText: string): boolean {
  try {
    const choices = field(JSON.parse(bodyText), 'choices')
    return Array.isArray(choices) && typeof field(choices[0], 'message') === 'object'
  } catch {
    return false
  }
}

/**
 * Whether the server has no chat route for its model, as shown by the status, or by vLLM's message, which also comes
 * with the statuses 200 and 400.
 */
function isMissing({ status, bodyText }: EngineReply): boolean {
  return (
    [404, 405, 501].includes(status) ||
    /does not support (?:chat|.* api)/i.test(errorMessage(bodyText))
  )
}

/** Verdicts about one server. `differs` is not among them, because it results from comparing replicas. */
export type SelfTestVerdict = Exclude<PoolVerdict, 'differs'>

export interface SelfTestResult {
  verdict: SelfTestVerdict
  /** The raw score of the self-test's good answer; null if the server returned no raw score. */
  raw: number | null
  /** The activated score of the good answer; null if it was refused or not requested. */
  activated: number | null
  /** The score of the first calibration text; null if no fixed text can be scored. */
  calibration: number | null
  /** The results for the calibration texts, on which replicas of a model must agree ({@link calibrationDiffers}). */
  calibrations: Calibration[]
  /** The finding in one sentence, for users. */
  detail: string
  /** The server lacks the route that the test calls: it runs another engine or serves another kind of model. */
  routeMissing?: true
}

/**
 * Scores that differ by less than this count as equal, because batching changes the last digits of a bfloat16 model.
 */
const MAX_EQUAL_DIFFERENCE = 1e-3

/** Scores of the good and the bad answer. */
export interface Pair {
  good: number
  bad: number
}

export interface Judgment {
  verdict: SelfTestVerdict
  detail: string
}

/** Returns the verdict for engines where 0 and 1 are normal scores. */
export function judgeUntested(constant: boolean, score: number): Judgment {
  const detail = constant
    ? `Four different texts all score ${show(score)}. This is normal for a verifier that returns 0 or 1, but not for a reward model.`
    : 'The engine has only one scoring method.'
  return { verdict: 'not_applicable', detail }
}

export function judgeConstant(engine: Engine, score: number): Judgment {
  const why =
    Math.abs(score) === 1
      ? engine.name === 'llamacpp'
        ? 'llama.cpp applies a softmax to this head (Qwen3), and a softmax over one label is 1 for every text. Serve the model with vLLM, SGLang or TEI.'
        : 'An activation over one label (a softmax of one number, or a normalized embedding) makes all rewards equal.'
      : 'The score does not depend on the text: the head may not be loaded, or another model is served.'
  return {
    verdict: 'constant',
    detail: `Four different texts all score exactly ${show(score)}. ${why}`,
  }
}

/**
 * Returns the verdict on a server's raw and activated scores. `bounded`: whether all raw scores lie within 0 to 1.
 * `activated`: null if the server returned none.
 */
export function judge(
  engine: Engine,
  { label }: EngineTarget,
  raw: Pair,
  bounded: boolean,
  activated: Pair | null,
): Judgment {
  const scored = `Scored ${show(raw.good)} and ${show(raw.bad)}`
  if (engine.name === 'llamacpp' && bounded) return judgeSoftmax(scored, label ?? null)
  if (activated === null) return judgeAlone(raw, bounded, scored)
  const both = `${scored} raw, ${show(activated.good)} and ${show(activated.bad)} activated`
  const equal = alike(raw, activated)
  const honest = alike(sigmoids(raw), activated)
  // A single label is activated by a sigmoid. With several labels, the activation of a named label depends on the
  // scores of the other labels, which are unknown here.
  const unrelated = label == null && !equal && !honest && withinUnit(activated)
  if (!bounded) {
    return unrelated
      ? judgeUnrelated(engine, both)
      : { verdict: 'raw', detail: `${scored}: not all within 0 to 1, so raw.` }
  }
  // Scores near 0.659 equal their sigmoids, so raw and activated scores cannot be distinguished.
  if (equal && honest) return { verdict: 'unverified', detail: `${both}: indistinguishable.` }
  if (equal) {
    return {
      verdict: 'squashed',
      detail: `${both}: equal, within 0 to 1. Either the server always applies an activation, or the model outputs such scores.`,
    }
  }
  if (honest)
    return { verdict: 'raw', detail: `${both}: the activated scores are sigmoids of the raw ones.` }
  if (alike(sigmoids(activated), raw) || !withinUnit(activated)) {
    return {
      verdict: 'inverted',
      detail: `${both}: raw and activated scores are swapped.`,
    }
  }
  return unrelated
    ? judgeUnrelated(engine, both)
    : { verdict: 'raw', detail: `${both}: different, as expected.` }
}

/**
 * Returns the verdict for activated scores that are not computed from the raw ones. vLLM 0.14.0 returns such scores for
 * a BERT cross-encoder, because its raw scores lack the tanh of the model's pooler.
 */
function judgeUnrelated(engine: Engine, both: string): Judgment {
  const cause =
    engine.name === 'vllm'
      ? ' vLLM 0.14 computes raw scores of BERT models without the activation of their pooler: serve the model with another release.'
      : ''
  return {
    verdict: 'unverified',
    detail: `${both}: the activated scores are not the sigmoids of the raw ones, so the raw ones are not the model's logits.${cause}`,
  }
}

/**
 * Returns the verdict for bounded scores of llama.cpp, which come from a softmax over several labels. The logits are
 * unavailable.
 */
function judgeSoftmax(scored: string, label: string | null): Judgment {
  const softmax = `${scored}, all within 0 to 1: llama.cpp applies a softmax to this head (Qwen3), and returns only label 0.`
  if (label === null) {
    return {
      verdict: 'label_unknown',
      detail: `${softmax} Register it with "label": 0 for that label's probability, or 1 for the second of two labels; it then needs selfTestOverride, because raw logits are unavailable.`,
    }
  }
  return {
    verdict: 'squashed',
    detail: `${softmax} This is the probability of label ${label}; raw logits, which other engines return, are unavailable.`,
  }
}

function judgeAlone(raw: Pair, bounded: boolean, scored: string): Judgment {
  // A normalized embedding of one number is +1 or −1.
  if (Math.abs(raw.good) === 1 && Math.abs(raw.bad) === 1) return ALWAYS_ONE
  if (!bounded) return { verdict: 'raw', detail: `${scored}: not all within 0 to 1, so raw.` }
  return {
    verdict: 'unverified',
    detail: `${scored}, all within 0 to 1, and the server returned no activated scores to compare.`,
  }
}

const ALWAYS_ONE: Judgment = {
  verdict: 'squashed',
  detail: 'Every text scores 1 or −1: a normalized embedding keeps only the sign of a score.',
}

function withinUnit({ good, bad }: Pair): boolean {
  return isProbability(good) && isProbability(bad)
}

export function isProbability(score: number): boolean {
  return score >= 0 && score <= 1
}

function alike(a: Pair, b: Pair): boolean {
  return (
    Math.abs(a.good - b.good) < MAX_EQUAL_DIFFERENCE &&
    Math.abs(a.bad - b.bad) < MAX_EQUAL_DIFFERENCE
  )
}

function sigmoids({ good, bad }: Pair): Pair {
  return { good: sigmoid(good), bad: sigmoid(bad) }
}

function sigmoid(x: number): number {
  return 1 / (1 + Math.exp(-x))
}

export function show(score: number): string {
  return String(Number(score.toPrecision(5)))
}

export function untested(detail: string): SelfTestResult {
  const none = { raw: null, activated: null, calibration: null, calibrations: [] }
  return { verdict: 'not_applicable', ...none, detail }
}

/** The result of a test that failed. `raw`: the score of the good answer, if known. */
export function failed(detail: string, raw: number | null): SelfTestResult {
  return { verdict: 'failed', raw, activated: null, calibration: raw, calibrations: [], detail }
}
