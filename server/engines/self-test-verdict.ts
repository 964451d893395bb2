import type * as wire from '../contract/self-test-verdict.ts'
import type { Calibration } from './calibration.ts'
import type { Engine, EngineTarget } from './engine.ts'

/** Verdicts for one server. Differences between replicas are found by comparing them. */
export type SelfTestVerdict = Exclude<wire.SelfTestVerdict, 'differs'>

/** Outcome of {@link rawScoreSelfTest}. */
export interface SelfTestResult {
  verdict: SelfTestVerdict
  /** The raw score of the good answer. */
  raw: number | null
  /** The activated score of the good answer; null: the engine has no activation. */
  activated: number | null
  /** The score of the first calibration text; null: no fixed text can be scored. */
  calibration: number | null
  /** The results for all calibration texts, on which replicas of a model must agree ({@link calibrationDiffers}). */
  calibrations: Calibration[]
  /** The finding in one sentence, for users. */
  detail: string
  /** The server has no such route (404, 405), so it is of another engine. */
  routeMissing?: true
}

/** Closer scores count as equal: batching changes the last digits of a bfloat16 model. */
const MAX_EQUAL_DIFFERENCE = 1e-3

/** Scores of the good and the bad answer. */
export interface Pair {
  good: number
  bad: number
}

/** A verdict with its finding. */
export interface Judgement {
  verdict: SelfTestVerdict
  detail: string
}

/** The verdict for engines where 0 and 1 are normal scores. */
export function judgeUntested(constant: boolean, score: number): Judgement {
  const detail = constant
    ? `Four different texts all score ${show(score)}. This is normal for a verifier that returns 0 or 1, but not for a reward model.`
    : 'The engine has only one scoring method.'
  return { verdict: 'not_applicable', detail }
}

/** The verdict for equal scores of different texts. */
export function judgeConstant(engine: Engine, score: number): Judgement {
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

/** Judges raw and activated scores. `bounded`: all raw scores lie within 0 to 1. */
export function judge(
  engine: Engine,
  { label }: EngineTarget,
  raw: Pair,
  bounded: boolean,
  activated: Pair | null,
): Judgement {
  const scored = `Scored ${show(raw.good)} and ${show(raw.bad)}`
  if (engine.name === 'llamacpp' && bounded) return judgeSoftmax(scored, label ?? null)
  if (activated === null) return judgeAlone(raw, bounded, scored)
  const both = `${scored} raw, ${show(activated.good)} and ${show(activated.bad)} activated`
  const equal = alike(raw, activated)
  const honest = alike(sigmoids(raw), activated)
  // One label is activated by a sigmoid. With several, the activation depends on the others, which are unknown here.
  const unrelated = label == null && !equal && !honest && withinUnit(activated)
  if (!bounded) {
    return unrelated
      ? judgeUnrelated(engine, both)
      : { verdict: 'raw', detail: `${scored}: not all within 0 to 1, so raw.` }
  }
  // The sigmoid of 0.659 is 0.659.
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
 * Found with vLLM 0.14.0 and a BERT cross-encoder: raw scores lack the tanh of the model's pooler, activated ones have
 * it.
 */
function judgeUnrelated(engine: Engine, both: string): Judgement {
  const cause =
    engine.name === 'vllm'
      ? ' vLLM 0.14 computes raw scores of BERT models without the activation of their pooler: serve the model with another release.'
      : ''
  return {
    verdict: 'unverified',
    detail: `${both}: the activated scores are not the sigmoids of the raw ones, so the raw ones are not the model's logits.${cause}`,
  }
}

/** llama.cpp returns bounded scores only after a softmax over several labels, whose logits are unavailable. */
function judgeSoftmax(scored: string, label: string | null): Judgement {
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

/** The verdict for a server without activated scores. */
function judgeAlone(raw: Pair, bounded: boolean, scored: string): Judgement {
  // A normalized embedding of one number is its sign.
  if (Math.abs(raw.good) === 1 && Math.abs(raw.bad) === 1) return ALWAYS_ONE
  if (!bounded) return { verdict: 'raw', detail: `${scored}: not all within 0 to 1, so raw.` }
  return {
    verdict: 'unverified',
    detail: `${scored}, all within 0 to 1, and the server returned no activated scores to compare.`,
  }
}

const ALWAYS_ONE: Judgement = {
  verdict: 'squashed',
  detail: 'Every text scores 1 or −1: a normalized embedding keeps only the sign of a score.',
}

function withinUnit({ good, bad }: Pair): boolean {
  return isProbability(good) && isProbability(bad)
}

/** Whether an activation could have produced the score. */
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

/** Writes a score for a sentence. */
export function show(score: number): string {
  return String(Number(score.toPrecision(5)))
}

/** The result without a test. */
export function untested(detail: string): SelfTestResult {
  const none = { raw: null, activated: null, calibration: null, calibrations: [] }
  return { verdict: 'not_applicable', ...none, detail }
}

/** The result without a score. */
export function failed(detail: string, raw: number | null): SelfTestResult {
  return { verdict: 'failed', raw, activated: null, calibration: raw, calibrations: [], detail }
}
