import type {
  Engine,
  EngineFailure,
  EngineFetch,
  EngineScore,
  EngineTarget,
  ScoreInput,
} from './engine.ts'

/**
 * What the raw-score self-test found:
 * - `raw`: scores come as the model's head gives them
 * - `squashed`: scores are activated (a sigmoid, a softmax) although raw ones were asked for
 * - `inverted`: asking for raw gives activated ones and the other way round (vLLM of late 2025, by its old word)
 * - `truncated`: the end of a long text does not count, so what is scored is not the whole answer
 * - `unverified`: the scores lie between 0 and 1 and there is no telling whether they are raw
 * - `not_applicable`: the engine has no activation, and the scores are as they are
 * - `failed`: the server gave no score to test
 */
export type SelfTestVerdict =
  | 'raw'
  | 'squashed'
  | 'inverted'
  | 'truncated'
  | 'unverified'
  | 'not_applicable'
  | 'failed'

/** Outcome of {@link rawScoreSelfTest}. */
export interface SelfTestResult {
  verdict: SelfTestVerdict
  /** The good answer's score, asked raw. */
  raw: number | null
  /** The good answer's score, asked activated; null where the engine cannot be asked so. */
  activated: number | null
  /** What replicas of a model must agree on ({@link calibrationDiffers}); null where no fixed text can be scored. */
  calibration: number | null
  /** What was seen, in a sentence for people. */
  detail: string
  /** The server has no such route (404, 405): it is another engine than it is taken for. */
  routeMissing?: true
}

/** What is tested. */
export interface SelfTestTarget extends EngineTarget {
  /** Longest text the server takes, in tokens, where known: the long texts stay below it. */
  maxModelLen?: number | null
}

/** The calibration pair: a right and a wrong answer to one question. Fixed: replicas are compared by the first. */
const QUESTION = 'What is the capital of France, and on which river does it lie?'
const GOOD: ScoreInput = {
  prompt: QUESTION,
  response: 'The capital of France is Paris. It lies on the river Seine.',
}
const BAD: ScoreInput = {
  prompt: QUESTION,
  response: 'bananas bananas i dont know lol, maybe Tokyo?? whatever.',
}

/** Scores this close are the same one: batching moves the last digits of a bfloat16 model. */
const SAME = 1e-3

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
 * Tests whether a server gives raw scores of whole texts, by four short and two or three long texts at most. Its calls
 * go one after the other. Never rejects: whatever keeps it from a verdict is `failed` with the reason.
 */
export async function rawScoreSelfTest(
  engine: Engine,
  fetch: EngineFetch,
  target: SelfTestTarget,
): Promise<SelfTestResult> {
  if (!engine.scores) return untested('The engine gives no scores.')
  // One's own scorer may look at the data source and the ground truth; a made-up text would tell nothing.
  if (engine.name === 'http') return untested('A scorer of one’s own is taken as it is.')
  const ask = (input: ScoreInput, activated: boolean) =>
    askScore(engine, fetch, { ...target, activated }, input)
  const good = await ask(GOOD, false)
  if (!good.ok) {
    return { ...failed(good.detail, null), ...(good.routeMissing ? { routeMissing: true } : {}) }
  }
  const bad = await ask(BAD, false)
  if (!bad.ok) return failed(bad.detail, good.score)
  const raw: Pair = { good: good.score, bad: bad.score }
  const activated = canActivate(engine, target) ? await askPair(ask) : null
  const judged = engine.selfTested
    ? judge(raw, activated)
    : ({ verdict: 'not_applicable', detail: 'The engine has one way to ask for a score.' } as const)
  const { verdict, detail } = SERIOUS.has(judged.verdict)
    ? judged
    : await lookForTruncation(ask, raw, target.maxModelLen ?? null, judged)
  return {
    verdict,
    raw: raw.good,
    activated: activated?.good ?? null,
    calibration: raw.good,
    detail,
  }
}

/**
 * The score of the fixed text that replicas of a model must agree on, in one call; null where no fixed text can be
 * scored. Rejects with an Error that says what the server answered.
 */
export async function calibrationScore(
  engine: Engine,
  fetch: EngineFetch,
  target: EngineTarget,
): Promise<number | null> {
  if (!engine.scores || engine.name === 'http') return null
  const answer = await askScore(engine, fetch, target, GOOD)
  if (!answer.ok) throw new Error(answer.detail)
  return answer.score
}

/** True when two calibration scores are of different models, weights or activations: more than arithmetic explains. */
export function calibrationDiffers(a: number, b: number): boolean {
  return Math.abs(a - b) > 0.05 * Math.max(1, Math.abs(a), Math.abs(b))
}

interface Pair {
  good: number
  bad: number
}

type Asked = EngineScore | (EngineFailure & { routeMissing?: boolean })
type Ask = (input: ScoreInput, activated: boolean) => Promise<Asked>

interface Judgement {
  verdict: SelfTestVerdict
  detail: string
}

/** Verdicts that no look at long texts changes. */
const SERIOUS: ReadonlySet<SelfTestVerdict> = new Set(['squashed', 'inverted'])

function untested(detail: string): SelfTestResult {
  return { verdict: 'not_applicable', raw: null, activated: null, calibration: null, detail }
}

function failed(detail: string, raw: number | null): SelfTestResult {
  return { verdict: 'failed', raw, activated: null, calibration: raw, detail }
}

async function askScore(
  engine: Engine,
  fetch: EngineFetch,
  target: EngineTarget,
  input: ScoreInput,
): Promise<Asked> {
  try {
    const { path, body } = engine.buildScoreRequest(input, target)
    const reply = await fetch(path, { method: 'POST', body: String(body) })
    const answer = engine.parseScoreResponse(reply.status, reply.headers, reply.bodyText, target)
    return answer.ok ? answer : { ...answer, routeMissing: [404, 405].includes(reply.status) }
  } catch (error) {
    const detail = error instanceof Error ? error.message : String(error)
    return { ok: false, class: 'fault', reason: 'transport', detail }
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

function judge(raw: Pair, activated: Pair | null): Judgement {
  const told = `Scored ${show(raw.good)} and ${show(raw.bad)}`
  if (activated === null) return judgeAlone(raw, told)
  if (!withinUnit(raw)) return { verdict: 'raw', detail: `${told}: outside 0 to 1, so raw.` }
  const both = `${told} asked raw, ${show(activated.good)} and ${show(activated.bad)} asked activated`
  const equal = alike(raw, activated)
  const honest = alike(sigmoids(raw), activated)
  // 0.659 is its own sigmoid.
  if (equal && honest) return { verdict: 'unverified', detail: `${both}: no telling them apart.` }
  if (equal && raw.good === 1 && raw.bad === 1) return ALWAYS_ONE
  if (equal) {
    return {
      verdict: 'squashed',
      detail: `${both}: the same, within 0 to 1. Either the server activates whatever is asked, or the model was made to score so.`,
    }
  }
  if (honest) return { verdict: 'raw', detail: `${both}: the second are sigmoids of the first.` }
  if (alike(sigmoids(activated), raw) || !withinUnit(activated)) {
    return {
      verdict: 'inverted',
      detail: `${both}: the server does the opposite of what is asked.`,
    }
  }
  return { verdict: 'raw', detail: `${both}: they differ as they should.` }
}

const ALWAYS_ONE: Judgement = {
  verdict: 'squashed',
  detail:
    'Every text scores 1: an activation over a single label (a softmax of one number, or a normalised embedding) makes all rewards equal.',
}

/** Of a server that can be asked in one way only. */
function judgeAlone(raw: Pair, told: string): Judgement {
  // A normalised embedding of one number keeps its sign.
  if (Math.abs(raw.good) === 1 && Math.abs(raw.bad) === 1) return ALWAYS_ONE
  if (!withinUnit(raw)) return { verdict: 'raw', detail: `${told}: outside 0 to 1, so raw.` }
  return {
    verdict: 'unverified',
    detail: `${told}, and the server gave no activated scores to compare.`,
  }
}

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
    detail: `Long answers that differ in their ends alone all score ${show(scores[0] as number)}: the server cuts texts off at the end.`,
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

function withinUnit({ good, bad }: Pair): boolean {
  return good >= 0 && good <= 1 && bad >= 0 && bad <= 1
}

function alike(a: Pair, b: Pair): boolean {
  return Math.abs(a.good - b.good) < SAME && Math.abs(a.bad - b.bad) < SAME
}

function sigmoids({ good, bad }: Pair): Pair {
  return { good: sigmoid(good), bad: sigmoid(bad) }
}

function sigmoid(x: number): number {
  return 1 / (1 + Math.exp(-x))
}

function show(score: number): string {
  return String(Number(score.toPrecision(5)))
}
